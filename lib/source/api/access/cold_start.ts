/**
 * The trap of an API server that is only reachable through its own cluster IP: the proxy would
 * need its own rules to learn them. It seems to work while old rules are there, and fails after
 * the next boot (cilium/cilium#9089).
 *
 * @module
 */
import { unbracketed } from "../../../model/cluster/names.ts";
import { parseAddress } from "../../../model/values/address.ts";
import type { Environment } from "./access_source.ts";

/** How the cluster IPs of the Service `default/kubernetes` are known. */
export interface ClusterIPKnowledge {
  /** Canonical; as the Service says. */
  readonly clusterIPs?: readonly string[];
  /** Tells it in a pod. */
  readonly environment?: Environment;
}

const CLUSTER_NAME = /^kubernetes(?:\.default(?:\.svc(?:\.[a-z0-9.-]+)?)?)?\.?$/i;

/**
 * Says why an API server cannot be used, where its address is a cluster IP of its own cluster.
 *
 * May be called before anything is known (it then goes by the environment that kubelet gives to
 * pods) and again with the first list of Services.
 *
 * @param server the URL that requests go to
 * @returns one line for the user, or `undefined` where nothing speaks against the server
 */
export function refuseClusterIPServer(
  server: URL,
  known: ClusterIPKnowledge,
): string | undefined {
  const host = unbracketed(server.hostname);
  const because = clusterIPReason(host, known);
  if (because === undefined) return undefined;
  return `the API server ${server.origin} is refused: ${because}. Cluster IPs work only once a ` +
    "proxy has written its rules, so signpost could never start on a fresh node. Set --master " +
    "or a kubeconfig with an address of the API server itself (of a control-plane node, or of " +
    "the load balancer before them)";
}

function clusterIPReason(host: string, known: ClusterIPKnowledge): string | undefined {
  if (CLUSTER_NAME.test(host)) return `${host} is the cluster's own name for it, a cluster IP`;
  const address = parseAddress(host);
  if (address === undefined) return undefined;
  const { clusterIPs = [], environment } = known;
  return [...clusterIPs, kubeletClusterIP(environment)].includes(address)
    ? `${address} is the cluster IP of Service default/kubernetes`
    : undefined;
}

/**
 * The cluster IP of `default/kubernetes` as kubelet hands it to pods, in a variable that is not
 * overridden when KUBERNETES_SERVICE_HOST is set to a real address.
 */
function kubeletClusterIP(environment: Environment | undefined): string | undefined {
  const link = environment?.("KUBERNETES_PORT") ?? "";
  return URL.canParse(link)
    ? parseAddress(/^tcp:\/\/\[?([^\]/]+?)\]?:\d+$/.exec(link)?.[1])
    : undefined;
}
