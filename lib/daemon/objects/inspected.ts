/** Reads objects from their source as they are written: the cache keeps only what rules need. */
import type { Kind } from "../../model/cluster/objects.ts";
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
    slicesOfService({ namespace, name }),
  ], { ...options, inspect: (kind, raw) => inspector.look(kind, raw) });
  return isRead ? inspector.in(namespace) : undefined;
}

/** Reads the addresses of a pod from the slices of its namespace. @returns `undefined`: no answer in time */
export async function readPodAddresses(
  { namespace, name }: ObjectName,
  options: InspectOptions,
): Promise<readonly string[] | undefined> {
  const found = new Set<string>();
  const take = (pod: EndpointPod) => {
    if (pod.namespace === namespace && pod.name === name) found.add(pod.address);
  };
  const isRead = await readPods(["EndpointSlice", slicesOf(namespace)], { ...options, take });
  return isRead || found.size > 0 ? [...found] : undefined;
}

/** Reads the names of the pods that are endpoints of a Service, by address, as far as an answer comes in time. */
export async function readPodNames(
  { namespace, name }: ObjectName,
  options: InspectOptions,
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  const take = (pod: EndpointPod) => {
    if (pod.namespace === namespace && pod.service === name) found.set(pod.address, pod.name);
  };
  await readPods(slicesOfService({ namespace, name }), { ...options, take });
  return found;
}

async function readPods(
  slices: List,
  { take, ...options }: InspectOptions & { readonly take: (pod: EndpointPod) => void },
): Promise<boolean> {
  const inspect = (kind: Kind, raw: unknown) => {
    if (kind === "EndpointSlice") endpointPods(raw).forEach(take);
  };
  return await readObjects([slices], { ...options, inspect });
}

function slicesOfService({ namespace, name }: ObjectName): List {
  const labelSelector = `kubernetes.io/service-name=${name}`;
  return ["EndpointSlice", slicesOf(namespace), { labelSelector }];
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
  const readList = async ([kind, path, selectors]: List, client: ApiClient) => {
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
