/**
 * Asks the API server for one object of each kind, and for a watch.
 *
 * @module
 */
import { findApiServer } from "../../daemon/objects/source.ts";
import type { ApiFailure, NodeFacts } from "../../findings/facts.ts";
import { type Kind, KINDS } from "../../model/cluster/objects.ts";
import { FatalError } from "../../model/values/errors.ts";
import type { ApiClient } from "../../source/api/api_client.ts";
import { WatchError } from "../../source/api/failure.ts";
import { resourceOf } from "../../source/api/resources.ts";
import type { QueryContext } from "../query.ts";

/** Milliseconds for an answer. */
const LIMIT = 1_000;

/** Asks. `undefined`: the objects come from manifests. */
export async function askApiServer(context: QueryContext): Promise<NodeFacts["apiServer"]> {
  if (context.configuration.signpost.manifests.length > 0) return undefined;
  try {
    const { client, url, warnings, close } = await findApiServer({ ...context, observer: {} });
    try {
      const asking = KINDS.map((kind) => ask(client, { kind, ...context }));
      return { where: url.origin, warnings, failures: (await Promise.all(asking)).flat() };
    } finally {
      close();
    }
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    const failure = { kind: "", message: error.message, isRefusal: false };
    return { where: "kubeconfig", warnings: [], failures: [failure] };
  }
}

async function ask(
  client: ApiClient,
  { kind, nodeName, signal }: Pick<QueryContext, "nodeName" | "signal"> & { readonly kind: Kind },
): Promise<ApiFailure[]> {
  const { path, selectors, optional } = resourceOf(kind, nodeName);
  const limits = { signal, headerLimit: LIMIT, idleLimit: LIMIT };
  try {
    // `resourceVersion=0`: from the server's memory, not from etcd.
    await client.json(path, {
      query: { ...selectors, limit: "1", resourceVersion: "0" },
      ...limits,
    });
    (await client.open(path, { query: { ...selectors, watch: "true" }, ...limits })).close();
    return [];
  } catch (error) {
    if (!(error instanceof WatchError)) throw error;
    const { reason, message } = error;
    if (optional && reason === "not-found") return [];
    return [{ kind, message, isRefusal: reason === "forbidden" || reason === "unauthorized" }];
  }
}
