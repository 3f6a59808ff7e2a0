/**
 * Adapter: the HTTP client for the API server, chosen by what a connection needs.
 *
 * @module
 */
import { canFetch, createFetchHttpClient } from "./fetch_http.ts";
import type { Proxies } from "../../source/api/access/proxies.ts";
import type { HttpClient } from "../../source/api/http/http.ts";
import { createNodeHttpClient } from "./node_http.ts";

/**
 * Makes a client for any server that a kubeconfig can name.
 *
 * @param options `proxies`: those that requests go through, whatever the environment names; none
 *   by default
 */
export function createHttpClient(options: { readonly proxies?: Proxies } = {}): HttpClient {
  const { proxies = {} } = options;
  const fetching = createFetchHttpClient(proxies);
  const node = createNodeHttpClient(proxies);
  return {
    request: (request) => (canFetch(request) ? fetching : node).request(request),
    close: () => {
      fetching.close();
      node.close();
    },
  };
}
