/**
 * The proxies that a process's environment names, for those who ask for them.
 *
 * @module
 */
import type { Environment } from "./access_source.ts";

/** Variables by their names in upper case; none: requests go to the API server itself. */
export type Proxies = Readonly<Record<string, string>>;

const NAMES = ["HTTP_PROXY", "HTTPS_PROXY"] as const;

/** What no proxy is asked for, whatever the environment says. */
const NEVER = ["localhost", "127.0.0.1", "::1"];

/** All variables that HTTP clients look at. */
export const PROXY_VARIABLES: readonly string[] = [...NAMES, "ALL_PROXY", "NO_PROXY"].flatMap((
  name,
) => [name, name.toLowerCase()]);

/**
 * The proxies of the environment, by the variables that Go's clients know: HTTP_PROXY, HTTPS_PROXY
 * and NO_PROXY, in upper or lower case.
 */
export function proxiesIn(environment: Environment): Proxies {
  const read = (name: string) => environment(name) || environment(name.toLowerCase()) || "";
  const proxies = NAMES.map((name) => [name, read(name)] as const).filter(([, url]) => url !== "");
  if (proxies.length === 0) return {};
  const except = [read("NO_PROXY"), ...NEVER].filter((each) => each !== "").join(",");
  return { ...Object.fromEntries(proxies), NO_PROXY: except };
}
