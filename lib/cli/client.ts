/** Asks the daemon at its socket. Each function throws a `FatalError` if no daemon of this version answers. */
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

interface Asking {
  readonly configuration: { readonly signpost: Pick<Configuration["signpost"], "socket"> };
  readonly runtime: Pick<Runtime, "askDaemon">;
}

/** Checks the version of an answer, in the field of that name. No terminal obeys its texts. */
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

export async function askStatus(
  daemon: Asking,
  { service, isFresh = false }: StatusOptions = {},
): Promise<Status> {
  const options = isFresh ? { timeout: FRESH_TIMEOUT } : {};
  const parameters = { service, fresh: isFresh ? "" : undefined };
  return readStatus(await get(daemon, "/v1/status", { parameters, ...options }));
}

/**
 * Asks for the objects, and decodes them like those of an API server.
 * @param options the objects' node, the only Service (all if absent), and the milliseconds for the answer
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
    state = await readStateText(body, { nodeName, decode: createDecoder() });
  };
  await get(daemon, "/v1/objects", { parameters: { service }, read, timeout });
  if (!state) throw new FatalError("the daemon gave no objects");
  return state;
}

export function readConnections(answer: unknown): ConnectionsReport {
  return readAnswer<ConnectionsReport>(answer, {
    name: "connectionsVersion",
    known: CONNECTIONS_VERSION,
  });
}

/** @param most the number of the busiest Services; `undefined`: as many as the daemon gives */
export async function askConnections(daemon: Asking, most?: number): Promise<ConnectionsReport> {
  const parameters = { top: most?.toString() };
  return readConnections(await get(daemon, "/v1/connections", { parameters }));
}

/** Asks for the command line that the daemon was started with. */
export async function askCommandLine(daemon: Asking): Promise<CommandLine> {
  const answer = await get(daemon, "/v1/command-line");
  const [argv, folder] = [fieldAt(answer, "argv"), fieldAt(answer, "workingDirectory")];
  const isCommandLine = Array.isArray(argv) && argv.every((word) => typeof word === "string") &&
    typeof folder === "string";
  if (!isCommandLine) throw new FatalError(OTHER_PROGRAM);
  return answer as CommandLine;
}

/** Asks for the Services whose last good rules the daemon keeps. */
export async function askHeldBack(daemon: Asking): Promise<readonly HeldBackPorts[]> {
  return readList(await get(daemon, "/v1/held-back"));
}

/** Asks for the Services of a name in all namespaces, as `namespace/name`. */
export async function askServices(daemon: Asking, name: string): Promise<readonly string[]> {
  return readList(await get(daemon, "/v1/services", { parameters: { name } }));
}

function readList<T>(answer: unknown): readonly T[] {
  if (Array.isArray(answer)) return plainData(answer);
  throw new FatalError(OTHER_PROGRAM);
}

const OTHER_PROGRAM = "the program at the socket does not answer like this version of signpost";

/** Asks for a full sync, which comes soon after. */
export async function requestFullSync(daemon: Asking): Promise<void> {
  await request(daemon, { method: "POST", path: "/v1/full-sync" });
}

/** @param options `parameters`: those that are undefined are left out */
function get(
  daemon: Asking,
  path: string,
  { parameters = {}, ...options }: Omit<DaemonRequest, "method" | "path"> & {
    readonly parameters?: Readonly<Record<string, string | undefined>>;
  } = {},
): Promise<unknown> {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]]
  );
  const query = given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
  return request(daemon, { method: "GET", path: path + query, ...options });
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
