/**
 * Adapter: the HTTP client for the API server, chosen by what a connection needs.
 *
 * @module
 */
import { canFetch, createFetchHttpClient } from "./fetch_http.ts";
import type { HttpClient } from "../../source/api/http/http.ts";
import { createNodeHttpClient } from "./node_http.ts";

/** Makes a client for any server that a kubeconfig can name. */
export function createHttpClient(): HttpClient {
  const fetching = createFetchHttpClient();
  const node = createNodeHttpClient();
  return {
    request: (request) => (canFetch(request) ? fetching : node).request(request),
    close: () => {
      fetching.close();
      node.close();
    },
  };
}
