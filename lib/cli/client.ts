/** Asks the daemon at its socket, which root has made. */
import type { Configuration } from "../config/configuration.ts";
import type { CommandLine } from "../model/configuration.ts";
import { CONNECTIONS_VERSION, type ConnectionsReport } from "../model/connections.ts";
import type { HeldBackPorts } from "../model/kernel/differences.ts";
import { type Status, STATUS_VERSION } from "../model/status.ts";
import type { DaemonRequest, Runtime } from "../model/ports/runtime.ts";
import { FatalError } from "../model/values/errors.ts";
import { fieldAt } from "../model/values/record.ts";
import { plain, plainData } from "../model/values/text.ts";
import { createDecoder } from "../source/objects/decode.ts";
import type { SavedState } from "../source/saved/format.ts";
import { readStateText } from "../system/state_file.ts";

export interface Asking {
  readonly configuration: { readonly signpost: Pick<Configuration["signpost"], "socket"> };
  readonly runtime: Pick<Runtime, "askDaemon">;
}

/**
 * Checks the version of an answer. No terminal obeys its texts.
 * @param name the field that has the version
 * @throws {FatalError} if it is no answer of signpost, or one of another version
 */
function readAnswer<T extends object>(
  answer: unknown,
  { name, known }: { readonly name: keyof T & string; readonly known: number },
): T {
  const given = fieldAt(answer, name);
  if (given === known) return plainData(answer as T);
  throw typeof given === "number"
    ? new FatalError(
      `the daemon answers in version ${given}, this signpost reads version ${known}: use the program that the daemon was started from`,
    )
    : new FatalError(`the program at the socket is not signpost: ${name} is missing`);
}

/** @throws {FatalError} if the answer is no status, or one of another version */
export function readStatus(answer: unknown): Status {
  return readAnswer<Status>(answer, { name: "statusVersion", known: STATUS_VERSION });
}

export interface StatusOptions {
  /** The Service whose status is wanted, too, as `namespace/name`. */
  readonly service?: string | undefined;
  /** True for findings of now. @default false: of the last minute */
  readonly isFresh?: boolean;
}

/** Milliseconds: a daemon that looks at its node runs programs, each for a minute at most. */
const FRESH_TIMEOUT = 90_000;

/** Asks the daemon for its status. @throws {FatalError} if no daemon answers, or not as a daemon does */
export async function askStatus(
  daemon: Asking,
  { service, isFresh = false }: StatusOptions = {},
): Promise<Status> {
  const path = withQuery("/v1/status", { service, fresh: isFresh ? "" : undefined });
  const timeout = isFresh ? { timeout: FRESH_TIMEOUT } : {};
  return readStatus(await request(daemon, { method: "GET", path, ...timeout }));
}

/**
 * Asks the daemon for its objects, and decodes them like those of an API server.
 * @param options the objects' node, the only Service (all if absent), and the milliseconds for the answer
 * @throws {FatalError} if no daemon answers, or has no objects yet
 */
export async function askObjects(
  daemon: Asking,
  { nodeName, service, timeout }: {
    readonly nodeName: string;
    readonly service?: string | undefined;
    readonly timeout: number;
  },
): Promise<SavedState> {
  let state: SavedState | undefined;
  const read = async (body: AsyncIterable<Uint8Array<ArrayBuffer>>) => {
    const pause = () => Promise.resolve();
    state = await readStateText(body, { nodeName, decode: createDecoder(), pause });
  };
  const path = withQuery("/v1/objects", { service });
  await request(daemon, { method: "GET", path, read, timeout });
  if (!state) throw new FatalError("the daemon gave no objects");
  return state;
}

function withQuery(
  path: string,
  parameters: Readonly<Record<string, string | undefined>>,
): string {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]]
  );
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** @throws {FatalError} if the answer is no report of connections, or one of another version */
export function readConnections(answer: unknown): ConnectionsReport {
  return readAnswer<ConnectionsReport>(answer, {
    name: "connectionsVersion",
    known: CONNECTIONS_VERSION,
  });
}

/**
 * Asks the daemon for the connections of each Service.
 * @param most the number of the busiest; `undefined`: as many as the daemon gives
 * @throws {FatalError} if no daemon answers, or not as a daemon that counts them
 */
export async function askConnections(
  daemon: Asking,
  most?: number,
): Promise<ConnectionsReport> {
  const path = withQuery("/v1/connections", { top: most?.toString() });
  return readConnections(await request(daemon, { method: "GET", path }));
}

/**
 * Asks the daemon what it was started with.
 * @throws {FatalError} if no daemon answers, or not as a daemon of this version does
 */
export async function askCommandLine(daemon: Asking): Promise<CommandLine> {
  const answer = await request(daemon, { method: "GET", path: "/v1/command-line" });
  const [argv, folder] = [fieldAt(answer, "argv"), fieldAt(answer, "workingDirectory")];
  const isCommandLine = Array.isArray(argv) && argv.every((word) => typeof word === "string") &&
    typeof folder === "string";
  if (!isCommandLine) {
    throw new FatalError("the program at the socket does not answer like this version of signpost");
  }
  return answer as CommandLine;
}

/**
 * Asks the daemon for the Services whose last good rules it keeps.
 * @throws {FatalError} if no daemon answers, or not as a daemon of this version does
 */
export async function askHeldBack(daemon: Asking): Promise<readonly HeldBackPorts[]> {
  return readList(await request(daemon, { method: "GET", path: "/v1/held-back" }));
}

/**
 * Asks the daemon for the Services of a name in all namespaces.
 * @returns `namespace/name` of each
 * @throws {FatalError} if no daemon answers, or not as a daemon of this version does
 */
export async function askServices(daemon: Asking, name: string): Promise<readonly string[]> {
  const path = withQuery("/v1/services", { name });
  return readList(await request(daemon, { method: "GET", path }));
}

function readList<T>(answer: unknown): readonly T[] {
  if (Array.isArray(answer)) return plainData(answer);
  throw new FatalError("the program at the socket does not answer like this version of signpost");
}

/** Asks the daemon for a full sync, which comes soon after. @throws {FatalError} if no daemon answers */
export async function requestFullSync(daemon: Asking): Promise<void> {
  await request(daemon, { method: "POST", path: "/v1/full-sync" });
}

export class NoDaemonError extends FatalError {
  override name = "NoDaemonError";
}

async function request(
  { configuration: { signpost: { socket } }, runtime }: Asking,
  what: DaemonRequest,
): Promise<unknown> {
  if (socket === "") throw new FatalError("there is no socket to ask the daemon at: see --socket");
  try {
    return await runtime.askDaemon(socket, what);
  } catch (cause) {
    throw new NoDaemonError(
      `no daemon answers at ${
        plain(socket)
      }: is signpost running on this node with that --socket, and may you open it (as root)?`,
      { cause },
    );
  }
}
