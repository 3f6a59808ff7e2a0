/**
 * The status that a daemon answers at its socket, checked: who listens there is not known.
 *
 * @module
 */
import * as z from "zod/mini";
import { type CommandLine, MODES } from "../model/configuration.ts";
import { plain } from "../model/values/text.ts";
import { KINDS, PROTOCOLS } from "../model/cluster/objects.ts";
import { HASH_SOURCES } from "../model/cluster/scheduler.ts";
import { CONNECTIONS_VERSION, type ConnectionsReport } from "../model/connections.ts";
import { type Status, STATUS_VERSION } from "../model/status.ts";
import type { HeldBackPorts } from "../model/kernel/differences.ts";
import { FatalError } from "../model/values/errors.ts";
import { FEATURES } from "../model/kernel/traits.ts";
import { createDecoder } from "../source/objects/decode.ts";
import type { SavedState } from "../source/saved/format.ts";
import { askDaemon } from "../system/socket.ts";
import { readStateText } from "../system/state_file.ts";
import { fieldAt } from "../model/values/record.ts";

/** Asks the daemon; in tests, something else. */
export type Ask = typeof askDaemon;

/** One line of printable text. */
const text = z.pipe(z.string(), z.transform(plain));
const number = z.number().check(z.nonnegative());
const kind = z.enum(KINDS);

/** What is more than this, a later signpost may tell. */
const schema: z.ZodMiniType<Status> = z.object({
  statusVersion: z.literal(STATUS_VERSION),
  version: text,
  commit: text,
  node: text,
  mode: z.enum(MODES),
  kernel: text,
  nft: text,
  missingFamilies: z._default(
    z.array(z.object({ family: z.enum(["IPv4", "IPv6"]), reason: text })),
    [],
  ),
  minSyncPeriod: z._default(text, ""),
  syncPauseSeconds: z._default(number, 0),
  started: text,
  healthy: z.boolean(),
  nodeEligible: z.boolean(),
  stale: z.boolean(),
  findings: z._default(
    z.array(z.object({
      id: text,
      severity: z.enum(["error", "warning", "info"]),
      what: text,
      where: text,
      remedy: text,
      services: z.array(text),
    })),
    [],
  ),
  interfaceAddresses: z._default(z.array(text), []),
  services: number,
  servicePorts: number,
  endpointSlices: number,
  endpoints: number,
  driftRepairs: number,
  portions: z.exactOptional(z.object({ done: number, of: number })),
  localhostNodePorts: z.exactOptional(z.object({ listeners: number, connections: number })),
  acceleration: z.exactOptional(
    z.object({ packets: number, interfaces: z.array(text), connections: z.nullable(number) }),
  ),
  takeOver: z.exactOptional(
    z.object({ from: z.literal("ipvs"), connections: number, until: text, obstacle: text }),
  ),
  snapshotAgeSeconds: z.nullable(number),
  refusedFeatures: z.exactOptional(z.array(z.object({ feature: z.enum(FEATURES), reason: text }))),
  service: z.exactOptional(z.object({
    service: text,
    state: z.enum(["applied", "pending", "rejected", "absent"]),
    since: text,
    sync: z.nullable(z.object({ number, kind: z.enum(["full", "partial"]) })),
    reason: text,
  })),
  watches: z.array(z.object({
    kind,
    state: text,
    resourceVersion: text,
    lastEvent: text,
    lists: number,
    lastError: text,
  })),
  syncs: z.array(z.object({
    kind: z.enum(["full", "partial"]),
    at: text,
    seconds: number,
    operations: number,
    bytes: number,
  })),
  refused: z.array(z.object({ kind, key: text, reason: text })),
  conflicts: z.array(
    z.object({ claim: text, holder: text, loser: text, because: z._default(text, "") }),
  ),
});

/**
 * Checks an answer.
 *
 * @throws {FatalError} where it is no status, or one of another version
 */
export function readStatus(answer: unknown): Status {
  return readAnswer(schema, answer, { name: "statusVersion", known: STATUS_VERSION });
}

/** @param version the field that says which version of the answer this is, and the version that is known */
function readAnswer<T>(
  schema: z.ZodMiniType<T>,
  answer: unknown,
  version: { readonly name: string; readonly known: number },
): T {
  const checked = schema.safeParse(answer, { jitless: true });
  if (checked.success) return checked.data;
  const given = fieldAt(answer, version.name);
  if (typeof given === "number" && given !== version.known) {
    throw new FatalError(
      `the daemon answers in version ${given}, this signpost reads version ${version.known}: use the program that the daemon was started from`,
    );
  }
  const [issue] = checked.error.issues;
  const where = plain(issue?.path.join(".") ?? "");
  throw new FatalError(`the program at the socket is not signpost: ${where}: ${issue?.message}`);
}

/**
 * Asks the daemon behind a socket how it is.
 *
 * @param socket `""`: the configuration has none
 * @param service the Service whose status is wanted, too, as `namespace/name`
 * @throws {FatalError} where no daemon answers, or not as a daemon does
 */
export async function askStatus(
  socket: string,
  ask: Ask = askDaemon,
  service?: string,
): Promise<Status> {
  const path = withService("/v1/status", service);
  return readStatus(await request(socket, { method: "GET", path }, ask));
}

/**
 * Asks the daemon for its objects, and decodes them like those of an API server.
 *
 * @param options the node that they must be of, the Service if only its objects are wanted, and the
 *   milliseconds that it may take
 * @throws {FatalError} where no daemon answers, or has no objects yet
 */
export async function askObjects(
  socket: string,
  { nodeName, service, timeout, ask = askDaemon }: {
    readonly nodeName: string;
    readonly service?: string | undefined;
    readonly timeout: number;
    readonly ask?: Ask | undefined;
  },
): Promise<SavedState> {
  let state: SavedState | undefined;
  const read = async (body: AsyncIterable<Uint8Array<ArrayBuffer>>) => {
    const pause = () => Promise.resolve();
    state = await readStateText(body, { nodeName, decode: createDecoder(), pause });
  };
  const path = withService("/v1/objects", service);
  await request(socket, { method: "GET", path, read, timeout }, ask);
  if (!state) throw new FatalError("the daemon gave no objects");
  return state;
}

function withService(path: string, service: string | undefined): string {
  return service === undefined ? path : `${path}?service=${encodeURIComponent(service)}`;
}

const connectionsSchema: z.ZodMiniType<ConnectionsReport> = z.object({
  connectionsVersion: z.literal(CONNECTIONS_VERSION),
  node: text,
  off: text,
  at: text,
  overSeconds: number,
  everySeconds: number,
  total: z.object({ connections: number, perSecond: number }),
  services: z.array(z.object({
    namespace: text,
    service: text,
    port: number,
    protocol: z.enum(PROTOCOLS),
    frontend: z.enum(["clusterIP", "externalIP", "loadBalancerIP", "nodePort"]),
    connections: number,
    perSecond: number,
  })),
});

/**
 * Checks an answer.
 *
 * @throws {FatalError} where it is no report of connections, or one of another version
 */
export function readConnections(answer: unknown): ConnectionsReport {
  return readAnswer(connectionsSchema, answer, {
    name: "connectionsVersion",
    known: CONNECTIONS_VERSION,
  });
}

/**
 * Asks the daemon behind a socket for the connections of each Service.
 *
 * @param most how many of the busiest are wanted; as many as the daemon gives where not given
 * @throws {FatalError} where no daemon answers, or not as a daemon that counts them
 */
export async function askConnections(
  socket: string,
  ask: Ask = askDaemon,
  most?: number,
): Promise<ConnectionsReport> {
  const path = `/v1/connections${most === undefined ? "" : `?top=${most}`}`;
  return readConnections(await request(socket, { method: "GET", path }, ask));
}

const commandLine: z.ZodMiniType<CommandLine> = z.object({
  argv: z.array(z.string()),
  workingDirectory: z.string(),
  file: z.nullable(z.object({ path: z.string(), text: z.string() })),
});

/**
 * Asks the daemon what it was started with.
 *
 * @throws {FatalError} where no daemon answers, or not as a daemon of this version does
 */
export async function askCommandLine(socket: string, ask: Ask = askDaemon): Promise<CommandLine> {
  const answer = await request(socket, { method: "GET", path: "/v1/command-line" }, ask);
  const checked = commandLine.safeParse(answer, { jitless: true });
  if (!checked.success) {
    throw new FatalError("the program at the socket does not answer like this version of signpost");
  }
  return checked.data;
}

const policy = z.enum(["Cluster", "Local"]);
const destination = { address: text, port: number };
const destinations = z.array(
  z.object({ ...destination, local: z.boolean(), hairpin: z.boolean() }),
);

const heldBack: z.ZodMiniType<HeldBackPorts[]> = z.array(z.object({
  service: text,
  reason: text,
  ports: z.array(z.object({
    name: text,
    family: z.union([z.literal(4), z.literal(6)]),
    protocol: z.enum(PROTOCOLS),
    port: number,
    clusterIPs: z.array(text),
    externalIPs: z.array(text),
    loadBalancerIPs: z.array(text),
    nodePort: number,
    healthCheckNodePort: z.exactOptional(number),
    sourceRanges: z.array(text),
    internalTrafficPolicy: policy,
    externalTrafficPolicy: policy,
    affinitySeconds: number,
    scheduler: z.exactOptional(z.union([
      z.object({ type: z.literal("round-robin") }),
      z.object({
        type: z.literal("consistent-hash"),
        hash: z.enum(HASH_SOURCES),
        tableSize: number,
      }),
    ])),
    accelerated: z.exactOptional(z.literal(true)),
    clusterEndpoints: destinations,
    localEndpoints: destinations,
    otherServingEndpoints: z.exactOptional(z.array(z.object(destination))),
    hasEndpoints: z.boolean(),
  })),
}));

/**
 * Asks the daemon for the Services whose last good rules it keeps.
 *
 * @throws {FatalError} if no daemon answers, or not as a daemon of this version does
 */
export async function askHeldBack(
  socket: string,
  ask: Ask = askDaemon,
): Promise<readonly HeldBackPorts[]> {
  const answer = await request(socket, { method: "GET", path: "/v1/held-back" }, ask);
  const checked = heldBack.safeParse(answer, { jitless: true });
  if (!checked.success) {
    throw new FatalError("the program at the socket does not answer like this version of signpost");
  }
  return checked.data;
}

/**
 * Asks the daemon for the Services of a name in all namespaces.
 *
 * @returns `namespace/name` of each
 * @throws {FatalError} if no daemon answers, or not as a daemon of this version does
 */
export async function askServices(
  socket: string,
  name: string,
  ask: Ask = askDaemon,
): Promise<readonly string[]> {
  const path = `/v1/services?name=${encodeURIComponent(name)}`;
  const checked = z.array(text).safeParse(await request(socket, { method: "GET", path }, ask));
  if (!checked.success) throw new FatalError("what answers at the socket is no such signpost");
  return checked.data;
}

/**
 * Asks the daemon for a full sync, which comes soon after.
 *
 * @throws {FatalError} where no daemon answers
 */
export async function requestFullSync(socket: string): Promise<void> {
  await request(socket, { method: "POST", path: "/v1/full-sync" }, askDaemon);
}

/** Thrown if nothing answers at the socket. */
export class NoDaemonError extends FatalError {
  override name = "NoDaemonError";
}

async function request(
  socket: string,
  what: Parameters<Ask>[1],
  ask: Ask,
): Promise<unknown> {
  if (socket === "") throw new FatalError("there is no socket to ask the daemon at: see --socket");
  try {
    return await ask(socket, what);
  } catch (cause) {
    throw new NoDaemonError(
      `no daemon answers at ${
        plain(socket)
      }: is signpost running on this node with that --socket, and may you open it (as root)?`,
      { cause },
    );
  }
}
