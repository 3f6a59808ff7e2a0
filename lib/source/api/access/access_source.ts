/** Finds the access to the API server, and checks its address. */
import { hostPort, unbracketed } from "../../../model/cluster/names.ts";
import type { Clock } from "../../../model/ports/ports.ts";
import { AccessError, type ApiAccess, type Material, type ReadFile } from "./access.ts";
import { parseKubeconfig, parseServer } from "./kubeconfig.ts";
import { errorText, oneLine } from "../../../model/values/text.ts";
import { isLoopback, parseAddress } from "../../../model/values/address.ts";

/** The folder that kubelet mounts into every pod. */
const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/** The system's authority bundles, in the paths of various distributions. Go reads the same files. */
const SYSTEM_BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

type ReadVariable = (name: string) => string | undefined;

interface AccessOptions {
  readonly kubeconfig: string;
  /** `--master`: a URL that overrides the server; `""` if unset. */
  readonly master: string;
  readonly environment: ReadVariable;
  readonly readFile: ReadFile;
}

/** Finds the access before each request: files change. `master` overrides the server. @throws {AccessError} */
export async function loadAccess(options: AccessOptions): Promise<ApiAccess> {
  const { kubeconfig, master, environment } = options;
  const access = kubeconfig === ""
    ? inClusterAccess(environment, master)
    : parseKubeconfig(await readKubeconfig(options), { path: kubeconfig, master });
  const { server, verify, certificateAuthority } = access;
  if (certificateAuthority || !verify || server.protocol !== "https:") return access;
  return { ...access, certificateAuthority: await systemAuthorities(options) };
}

/** Milliseconds to read a file. A network file system without its server never answers. */
const READ_LIMIT = 10_000;

/** Limits the time of a read. A read in progress serves later callers, because each read holds a thread. */
export function limitReads(readFile: ReadFile, clock: Pick<Clock, "sleep">): ReadFile {
  const pending = new Map<string, Promise<string>>();
  return async (path) => {
    const reading = pending.get(path) ?? readFile(path).finally(() => pending.delete(path));
    pending.set(path, reading);
    const end = new AbortController();
    const limit = clock.sleep(READ_LIMIT, end.signal).then(() => {
      throw new Error(`the file could not be read within ${READ_LIMIT / 1000} s`);
    });
    return await Promise.race([reading, limit]).finally(() => end.abort());
  };
}

/** Reads the system's authorities. `SSL_CERT_FILE` names them, as for kube-proxy. */
async function systemAuthorities({ environment, readFile }: AccessOptions): Promise<Material> {
  const named = environment("SSL_CERT_FILE");
  const paths = named ? [named] : SYSTEM_BUNDLES;
  for (const path of paths) {
    const text = await readFile(path).catch(() => undefined);
    if (text !== undefined) return { type: "inline", text, origin: path };
  }
  throw new AccessError([
    "the API server cannot be verified: set certificate-authority in the kubeconfig; " +
    `the machine's authorities are not at ${oneLine(paths.join(", "))}`,
  ]);
}

async function readKubeconfig({ kubeconfig, readFile }: AccessOptions): Promise<string> {
  try {
    return await readFile(kubeconfig);
  } catch (cause) {
    const problem = `${oneLine(kubeconfig)}: the kubeconfig cannot be read: ${errorText(cause)}`;
    throw new AccessError([problem], { cause });
  }
}

/** Returns the in-cluster access, or outside of a pod `master` without credentials. @throws {AccessError} */
export function inClusterAccess(environment: ReadVariable, master: string): ApiAccess {
  const host = environment("KUBERNETES_SERVICE_HOST") ?? "";
  const port = environment("KUBERNETES_SERVICE_PORT") ?? "";
  const inPod = host !== "" && port !== "";
  if (!inPod && master === "") {
    throw new AccessError([
      "no API server: set --kubeconfig, --master or --manifests " +
      "(KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this is not a pod)",
    ]);
  }
  const server = master === ""
    ? parseServer(`https://${hostPort(host, Number(port))}`, { tls: true })
    : parseServer(master, { tls: inPod });
  if (typeof server === "string") {
    throw new AccessError([`${master === "" ? "KUBERNETES_SERVICE_HOST" : "--master"}: ${server}`]);
  }
  const file = (name: string) =>
    inPod ? { type: "file", path: `${SERVICE_ACCOUNT}/${name}` } as const : undefined;
  return { server, certificateAuthority: file("ca.crt"), token: file("token"), verify: true };
}

/** Proxy variables by their upper-case names. Without any, requests go to the API server directly. */
export type Proxies = Readonly<Record<string, string>>;

const NAMES = ["HTTP_PROXY", "HTTPS_PROXY"];

/** The variables that HTTP clients read. */
export const PROXY_VARIABLES: readonly string[] = [...NAMES, "ALL_PROXY", "NO_PROXY"]
  .flatMap((name) => [name, name.toLowerCase()]);

/** Returns the proxies of the environment. As in Go, names may be in lower case, and loopback is left out. */
export function proxiesIn(environment: ReadVariable): Proxies {
  const read = (name: string) => environment(name) || environment(name.toLowerCase()) || "";
  const proxies = NAMES.map((name) => [name, read(name)]).filter(([, url]) => url !== "");
  if (proxies.length === 0) return {};
  const except = [read("NO_PROXY"), "localhost", "127.0.0.1", "::1"].filter((each) => each !== "");
  return { ...Object.fromEntries(proxies), NO_PROXY: except.join() };
}

/** Returns warnings for the administrator, one line each, without credentials. */
export function accessWarnings(access: ApiAccess): readonly string[] {
  const { server, verify, token } = access;
  const warnings: string[] = [];
  if (server.protocol === "https:" && !verify) {
    warnings.push(
      `insecure-skip-tls-verify is set: any machine that answers at ${server.origin} gets the ` +
        "credentials and decides on this node's rules; set certificate-authority instead",
    );
  }
  if (server.protocol === "http:" && token && !isLocal(server.hostname)) {
    warnings.push(
      `the credentials go to ${server.origin} unencrypted: another machine can read them, and ` +
        "decide on this node's rules; use https",
    );
  }
  return warnings;
}

function isLocal(hostname: string): boolean {
  const address = parseAddress(unbracketed(hostname));
  return address === undefined ? hostname === "localhost" : isLoopback(address);
}

/** The sources of the cluster IPs of Service `default/kubernetes`. */
interface ClusterIPKnowledge {
  readonly clusterIPs?: readonly string[];
  readonly environment?: ReadVariable;
}

const CLUSTER_NAME = /^kubernetes(?:\.default(?:\.svc(?:\.[a-z0-9.-]+)?)?)?\.?$/i;

/**
 * Returns the reason to refuse an API server at its own cluster IP. The proxy would need rules before it can read
 * them (cilium/cilium#9089).
 * @param known kubelet's variables at the start, and the Service once the first list has it
 */
export function refuseClusterIPServer(server: URL, known: ClusterIPKnowledge): string | undefined {
  const because = clusterIPReason(unbracketed(server.hostname), known);
  return because &&
    `the API server ${server.origin} is refused: ${because}. Cluster IPs work only once a ` +
      "proxy has written its rules, so signpost could never start on a fresh node. Set --master " +
      "or a kubeconfig with an address of the API server itself (of a control-plane node, or of " +
      "the load balancer before them)";
}

function clusterIPReason(
  host: string,
  { clusterIPs = [], environment }: ClusterIPKnowledge,
): string | undefined {
  if (CLUSTER_NAME.test(host)) return `${host} is the cluster's own name for it, a cluster IP`;
  const address = parseAddress(host);
  if (address === undefined) return undefined;
  // kubelet sets KUBERNETES_PORT to the cluster IP, also if KUBERNETES_SERVICE_HOST is overridden.
  const link = environment?.("KUBERNETES_PORT") ?? "";
  const ofKubelet = parseAddress(/^tcp:\/\/\[?([^\]/]+?)\]?:\d+$/.exec(link)?.[1]);
  return [...clusterIPs, ofKubelet].includes(address)
    ? `${address} is the cluster IP of Service default/kubernetes`
    : undefined;
}
