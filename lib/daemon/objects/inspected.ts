/** Reads a Service and its slices from their source as they are written: the cache keeps only what rules need. */
import type { Kind } from "../../model/cluster/objects.ts";
import { FatalError } from "../../model/values/errors.ts";
import { fieldAt } from "../../model/values/record.ts";
import type { ApiClient } from "../../source/api/api_client.ts";
import { WatchError } from "../../source/api/failure.ts";
import { type Inspected, Inspector } from "../../source/objects/inspect.ts";
import { findApiServer, inspectManifests, type SourceOptions } from "./source.ts";

/** Milliseconds for the answers of the API server. */
const LIMIT = 3_000;

/** @param options `client`: the API server's @default by the configuration @returns `undefined`: no answer in time */
export async function readInspected(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  options: Omit<SourceOptions, "inspect"> & { readonly client: ApiClient | undefined },
): Promise<Inspected | undefined> {
  const { configuration: { signpost: { manifests } }, runtime: { clock } } = options;
  // The standard input can be read only once.
  if (manifests.includes("-")) return undefined;
  const inspector = new Inspector(name);
  const inspect = (kind: Kind, raw: unknown) => inspector.look(kind, raw);
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  const readApi = async () => {
    const client = options.client ?? (await findApiServer(options)).client;
    // Lists, for nodes need no permission to get single objects.
    const lists = [
      ["Service", `/api/v1/namespaces/${namespace}/services`, {
        fieldSelector: `metadata.name=${name}`,
      }],
      ["EndpointSlice", `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`, {
        labelSelector: `kubernetes.io/service-name=${name}`,
      }],
    ] as const;
    await Promise.all(lists.map(async ([kind, path, query]) => {
      const items = fieldAt(await client.json(path, { query, signal }), "items");
      for (const item of Array.isArray(items) ? items : []) inspect(kind, item);
    }));
  };
  const reading = manifests.length > 0
    ? inspectManifests({ ...options, signal, inspect })
    : readApi();
  try {
    return await Promise.race([
      reading.then(() => inspector.in(namespace)),
      clock.sleep(LIMIT, signal).then(() => undefined),
    ]);
  } catch (error) {
    if (error instanceof WatchError || error instanceof FatalError || signal.aborted) {
      return undefined;
    }
    throw error;
  } finally {
    over.abort();
  }
}
