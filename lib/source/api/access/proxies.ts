/**
 * The HTTP proxies in the process's environment.
 *
 * @module
 */
import type { Environment } from "./access_source.ts";

/** Proxy variables by their upper-case names. If empty, requests go to the API server directly. */
export type Proxies = Readonly<Record<string, string>>;

const NAMES = ["HTTP_PROXY", "HTTPS_PROXY"] as const;

/** Hosts that never go through a proxy. */
const NEVER = ["localhost", "127.0.0.1", "::1"];

/** The variables that HTTP clients read. */
export const PROXY_VARIABLES: readonly string[] = [...NAMES, "ALL_PROXY", "NO_PROXY"].flatMap((
  name,
) => [name, name.toLowerCase()]);

/**
 * Returns the proxies of the environment: HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper or lower
 * case as in Go.
 */
export function proxiesIn(environment: Environment): Proxies {
  const read = (name: string) => environment(name) || environment(name.toLowerCase()) || "";
  const proxies = NAMES.map((name) => [name, read(name)] as const).filter(([, url]) => url !== "");
  if (proxies.length === 0) return {};
  const except = [read("NO_PROXY"), ...NEVER].filter((each) => each !== "").join(",");
  return { ...Object.fromEntries(proxies), NO_PROXY: except };
}
