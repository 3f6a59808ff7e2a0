/** Reads objects from their source as they are written: the cache keeps only what rules need. */
import type { Kind } from "../../model/cluster/objects.ts";
import { FatalError } from "../../model/values/errors.ts";
import { fieldAt } from "../../model/values/record.ts";
import type { ApiClient } from "../../source/api/api_client.ts";
import { WatchError } from "../../source/api/failure.ts";
import { type Inspected, Inspector, podAddresses } from "../../source/objects/inspect.ts";
import { findApiServer, inspectManifests, type SourceOptions } from "./source.ts";

/** Milliseconds for the answers of the API server. */
const LIMIT = 3_000;

/** Objects in a page of a list. */
const PAGE_SIZE = "500";

interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

type InspectOptions = Omit<SourceOptions, "inspect"> & {
  /** The API server's; `undefined`: that of the configuration. */
  readonly client: ApiClient | undefined;
};

/** A list, for nodes need no permission to get single objects. */
type List = readonly [kind: Kind, path: string, query?: Readonly<Record<string, string>>];

/** Reads a Service and its slices. @returns `undefined`: no answer in time */
export async function readInspected(
  { namespace, name }: ObjectName,
  options: InspectOptions,
): Promise<Inspected | undefined> {
  const inspector = new Inspector(name);
  const isRead = await readObjects([
    ["Service", `/api/v1/namespaces/${namespace}/services`, {
      fieldSelector: `metadata.name=${name}`,
    }],
    ["EndpointSlice", slicesOf(namespace), { labelSelector: `kubernetes.io/service-name=${name}` }],
  ], { ...options, inspect: (kind, raw) => inspector.look(kind, raw) });
  return isRead ? inspector.in(namespace) : undefined;
}

/** Reads the addresses of a pod from the slices of its namespace. @returns `undefined`: no answer in time */
export async function readPodAddresses(
  pod: ObjectName,
  options: InspectOptions,
): Promise<readonly string[] | undefined> {
  const found = new Set<string>();
  const inspect = (kind: Kind, raw: unknown) => {
    if (kind !== "EndpointSlice") return;
    for (const address of podAddresses(raw, pod)) found.add(address);
  };
  const isRead = await readObjects([["EndpointSlice", slicesOf(pod.namespace)]], {
    ...options,
    inspect,
  });
  return isRead || found.size > 0 ? [...found] : undefined;
}

function slicesOf(namespace: string): string {
  return `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
}

/** Reads lists of the API server, or all manifests. @returns false: no answer in time */
async function readObjects(
  lists: readonly List[],
  { inspect, ...options }: InspectOptions & Required<Pick<SourceOptions, "inspect">>,
): Promise<boolean> {
  const { configuration: { signpost: { manifests } }, runtime: { clock } } = options;
  // The standard input can be read only once.
  if (manifests.includes("-")) return false;
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  const readApi = async () => {
    const client = options.client ?? (await findApiServer(options)).client;
    await Promise.all(lists.map(async ([kind, path, selectors]) => {
      const query = { ...selectors, limit: PAGE_SIZE };
      for (let next = ""; !signal.aborted;) {
        const page = await client.json(path, {
          query: next ? { ...query, continue: next } : query,
          signal,
        });
        const items = fieldAt(page, "items");
        for (const item of Array.isArray(items) ? items : []) inspect(kind, item);
        next = String(fieldAt(page, "metadata", "continue") ?? "");
        if (next === "") return;
      }
    }));
  };
  const reading = manifests.length > 0
    ? inspectManifests({ ...options, signal, inspect })
    : readApi();
  try {
    return await Promise.race([
      reading.then(() => true),
      clock.sleep(LIMIT, signal).then(() => false),
    ]);
  } catch (error) {
    if (error instanceof WatchError || error instanceof FatalError || signal.aborted) return false;
    throw error;
  } finally {
    over.abort();
  }
}
