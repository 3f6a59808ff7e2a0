/** A server, a decoder and a sink for the tests of lib/source/. */
import type {
  Kind,
  KindMap,
  ObjectChange,
  ObjectEvent,
  ReplaceEvent,
} from "../../../lib/model/cluster/objects.ts";
import { objectKey } from "../../../lib/model/cluster/names.ts";
import type { ApiAccess } from "../../../lib/source/api/access/access.ts";
import { ApiClient, type HttpClient } from "../../../lib/source/api/api_client.ts";
import { watchAll } from "../../../lib/source/api/reflector.ts";
import { ManualClock, MemoryLogger } from "../../support/clock_and_log.ts";

/** A server that asks for nothing. */
export const ANONYMOUS: ApiAccess = {
  server: new URL("http://192.0.2.1"),
  certificateAuthority: undefined,
  verify: true,
};

/**
 * A decoder that keeps the label `version` as the uid of any object, refuses objects with the
 * label `refuse`, and ignores headless Services and those with the label `ignore`.
 */
export function fakeDecode<K extends Kind>(kind: K, raw: unknown): ObjectChange<K> {
  const { metadata, spec } = raw as {
    metadata: { name: string; namespace?: string; labels?: Record<string, string> };
    spec?: { clusterIP?: string };
  };
  const { name, labels = {} } = metadata;
  const isNamespaced = kind === "Service" || kind === "EndpointSlice";
  // Protobuf says that there is none in so many words.
  const namespace = metadata.namespace || (isNamespaced ? "default" : undefined);
  const key = objectKey({ name, ...(namespace !== undefined && { namespace }) });
  const change = (rest: object) => ({ kind, key, ...rest }) as ObjectChange<K>;
  if (labels["refuse"] !== undefined) return change({ type: "refuse", reason: labels["refuse"] });
  if (labels["ignore"] !== undefined || spec?.clusterIP === "None") {
    return change({ type: "delete" });
  }
  const object = { name, namespace, uid: labels["version"] ?? "" } as unknown as KindMap[K];
  return change({ type: "upsert", object });
}

/** A sink that plays the events into a state: by kind, the version of each object. */
export class MemorySink {
  readonly events: ObjectEvent[] = [];
  readonly state = new Map<Kind, Map<string, string>>();
  /** Objects that a `replace` took away, which no failure of a watch may ever do. */
  readonly lost: string[] = [];

  readonly take = (event: ObjectEvent): void => {
    this.events.push(event);
    const objects = this.state.get(event.kind) ?? new Map<string, string>();
    this.state.set(event.kind, objects);
    if (event.type === "delete") objects.delete(event.key);
    if (event.type === "upsert") objects.set(event.key, versionOf(event.object));
    if (event.type === "replace") this.#replace(event, objects);
  };

  /** Events of a type, as `type kind key`. */
  summary(kind: Kind): readonly string[] {
    return this.events.filter((event) => event.kind === kind).map((event) =>
      event.type === "replace"
        ? `replace ${[...upsertsOf(event).keys()].sort().join(" ")}`.trim()
        : `${event.type} ${event.key}`
    );
  }

  /** The version of an object, `undefined` where it is not there. */
  version(kind: Kind, key: string): string | undefined {
    return this.state.get(kind)?.get(key);
  }

  #replace(event: ReplaceEvent, objects: Map<string, string>): void {
    const incoming = upsertsOf(event);
    for (const key of objects.keys()) {
      if (!incoming.has(key) && event.changes.get(key)?.type !== "refuse") this.lost.push(key);
    }
    objects.clear();
    for (const [key, object] of incoming) objects.set(key, versionOf(object));
  }
}

type WatchOptions = Parameters<typeof watchAll>[0];

/** Watches Services of a server that the test plays, until the signal aborts. */
export function watchServices(
  { http, clock = new ManualClock(), ...options }:
    & Pick<WatchOptions, "sink" | "signal">
    & Partial<WatchOptions>
    & { readonly http: HttpClient },
): Promise<void> {
  const readFile = () => Promise.reject(new Error("no files"));
  const access = () => Promise.resolve(ANONYMOUS);
  return watchAll({
    kinds: ["Service"],
    client: new ApiClient({ http, clock, access, readFile, userAgent: "test" }),
    nodeName: "node-1",
    decode: fakeDecode,
    protobuf: false,
    clock,
    logger: new MemoryLogger(),
    random: () => 0.5,
    ...options,
  });
}

function upsertsOf(event: ReplaceEvent): ReadonlyMap<string, KindMap[Kind]> {
  const changes = [...event.changes.values()];
  return new Map(
    changes.flatMap((each) => each.type === "upsert" ? [[each.key, each.object]] : []),
  );
}

function versionOf(object: unknown): string {
  return (object as { uid: string }).uid;
}
