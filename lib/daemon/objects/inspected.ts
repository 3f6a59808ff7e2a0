/** Reads fields of objects from their source that the cache does not keep. */
import type { Kind } from "../../model/cluster/objects.ts";
import type { ObjectName } from "../../model/cluster/names.ts";
import { FatalError } from "../../model/values/errors.ts";
import { fieldAt } from "../../model/values/record.ts";
import type { ApiClient } from "../../source/api/api_client.ts";
import { WatchError } from "../../source/api/failure.ts";
import {
  type EndpointPod,
  endpointPods,
  type Inspected,
  Inspector,
} from "../../source/objects/inspect.ts";
import { namespacedPath, SERVICE_NAME } from "../../source/objects/tables.ts";
import { findApiServer, inspectManifests, type SourceOptions } from "./source.ts";

/** Milliseconds for all answers of the API server. */
const LIMIT = 3_000;

/** Objects in a page of a list. */
const PAGE_SIZE = "500";

type InspectOptions = Omit<SourceOptions, "inspect"> & {
  /** The client of the API server; `undefined` to make one from the configuration. */
  readonly client: ApiClient | undefined;
};

/** A list in a namespace: a node may not have the permission to get single objects. */
type List = readonly [kind: Kind, namespace: string, query?: Readonly<Record<string, string>>];

/** Reads a Service and its slices. @returns `undefined` without an answer in time */
export async function readInspected(
  { namespace, name }: ObjectName,
  options: InspectOptions,
): Promise<Inspected | undefined> {
  const inspector = new Inspector(name);
  const isRead = await readObjects([
    ["Service", namespace, { fieldSelector: `metadata.name=${name}` }],
    slicesOf(namespace, name),
  ], { ...options, inspect: (kind, raw) => inspector.look(kind, raw) });
  return isRead ? inspector.in(namespace) : undefined;
}

/** Reads pods that are endpoints, of one Service or one name. @returns `undefined` without an answer in time */
export async function readPods(
  { namespace, service, name }: Partial<EndpointPod> & Pick<EndpointPod, "namespace">,
  options: InspectOptions,
): Promise<readonly EndpointPod[] | undefined> {
  const pods: EndpointPod[] = [];
  const isWanted = (pod: EndpointPod) =>
    pod.namespace === namespace && pod.service === (service ?? pod.service) &&
    pod.name === (name ?? pod.name);
  const inspect = (kind: Kind, raw: unknown) => {
    if (kind !== "EndpointSlice") return;
    for (const pod of endpointPods(raw).filter(isWanted)) pods.push(pod);
  };
  const isRead = await readObjects([slicesOf(namespace, service)], { ...options, inspect });
  return isRead || pods.length > 0 ? pods : undefined;
}

function slicesOf(namespace: string, service: string | undefined): List {
  const query = service === undefined ? {} : { labelSelector: `${SERVICE_NAME}=${service}` };
  return ["EndpointSlice", namespace, query];
}

/** Reads lists of the API server, or all manifests. @returns false without an answer in time */
async function readObjects(
  lists: readonly List[],
  { inspect, ...options }: InspectOptions & Required<Pick<SourceOptions, "inspect">>,
): Promise<boolean> {
  const { configuration: { signpost: { manifests } }, runtime: { clock } } = options;
  // The standard input can be read only once.
  if (manifests.includes("-")) return false;
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  const readList = async ([kind, namespace, selectors]: List, client: ApiClient) => {
    const path = namespacedPath(kind, namespace);
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
  };
  const readApi = async () => {
    const { client, close } = options.client
      ? { client: options.client, close() {} }
      : await findApiServer(options);
    await Promise.all(lists.map((list) => readList(list, client))).finally(close);
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
