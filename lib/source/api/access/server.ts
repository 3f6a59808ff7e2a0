/**
 * Judges the API server's address: is the connection safe, and does the server work before the proxy has written
 * rules?
 * @module
 */
import { unbracketed } from "../../../model/cluster/names.ts";
import { isLoopback, parseAddress } from "../../../model/values/address.ts";
import type { ApiAccess } from "./access.ts";
import type { Environment } from "./access_source.ts";

/** Returns one warning a line for the administrator. Holds no credentials. */
export function accessWarnings(access: ApiAccess): readonly string[] {
  const { server, verify, token, basic } = access;
  const warnings: string[] = [];
  if (server.protocol === "https:" && !verify) {
    warnings.push(
      `insecure-skip-tls-verify is set: whoever answers at ${server.origin} gets the credentials ` +
        "and decides on this node's rules; set certificate-authority instead",
    );
  }
  const hasSecret = token !== undefined || basic !== undefined;
  if (server.protocol === "http:" && hasSecret && !isLocal(server.hostname)) {
    warnings.push(
      `the credentials go to ${server.origin} unencrypted: who is on the way can read them, and ` +
        "decide on this node's rules; use https",
    );
  }
  return warnings;
}

function isLocal(hostname: string): boolean {
  const address = parseAddress(unbracketed(hostname));
  if (address === undefined) return hostname === "localhost";
  return isLoopback(address);
}

/** The sources of the cluster IPs of Service `default/kubernetes`. */
interface ClusterIPKnowledge {
  /** Canonical addresses from the Service. */
  readonly clusterIPs?: readonly string[];
  /** Has them in a pod. */
  readonly environment?: Environment;
}

const CLUSTER_NAME = /^kubernetes(?:\.default(?:\.svc(?:\.[a-z0-9.-]+)?)?)?\.?$/i;

/**
 * Returns the reason to refuse an API server that is reachable only through its own cluster IP, in one line. The
 * proxy would need its own rules to learn them (cilium/cilium#9089).
 *
 * The first call has only kubelet's environment variables, the second one the first list of Services.
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
 * Returns the cluster IP of `default/kubernetes` from kubelet's environment variable. It stays when
 * KUBERNETES_SERVICE_HOST is overridden.
 */
function kubeletClusterIP(environment: Environment | undefined): string | undefined {
  const link = environment?.("KUBERNETES_PORT") ?? "";
  return URL.canParse(link)
    ? parseAddress(/^tcp:\/\/\[?([^\]/]+?)\]?:\d+$/.exec(link)?.[1])
    : undefined;
}
