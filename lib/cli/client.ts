/** Asks the daemon at its socket. Each function throws a `FatalError` if a daemon of this version does not answer. */
import type { Configuration } from "../config/configuration.ts";
import type { DesiredInputs } from "../daemon/reports/status_report.ts";
import type { Unanswered } from "../daemon/reports/explanation.ts";
import type { Answer } from "../explain/answer.ts";
import { EXPLAIN_VERSION } from "../explain/report.ts";
import type { CommandLine } from "../model/configuration.ts";
import { CONNECTIONS_VERSION, type ConnectionsReport } from "../model/connections.ts";
import type { DaemonRequest, Runtime } from "../model/ports/runtime.ts";
import { type HistoryEntry, type Status, STATUS_VERSION } from "../model/status.ts";
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

/** Checks the version of an answer in the field `name`. A terminal does not obey the returned texts. */
function readAnswer<T extends object>(
  answer: unknown,
  { name, known }: { readonly name: keyof T & string; readonly known: number },
): T {
  const given = fieldAt(answer, name);
  if (given === known) return plainData(answer as T);
  throw typeof given === "number"
    ? new FatalError(
      `the daemon answers in version ${given}, but this signpost reads version ${known}: use the daemon's own program`,
    )
    : new FatalError(`the program at the socket is not signpost: its answer lacks ${name}`);
}

export function readStatus(answer: unknown): Status {
  return readAnswer<Status>(answer, { name: "statusVersion", known: STATUS_VERSION });
}

export function readConnections(answer: unknown): ConnectionsReport {
  const version = { name: "connectionsVersion", known: CONNECTIONS_VERSION } as const;
  return readAnswer<ConnectionsReport>(answer, version);
}

export interface StatusOptions {
  /** True to look for findings now. @default false: the findings of the last minute */
  readonly isFresh?: boolean;
}

/** Milliseconds for new findings: the daemon runs programs, each for a minute at most. */
const FRESH_TIMEOUT = 90_000;

export async function askStatus(
  daemon: Asking,
  { isFresh }: StatusOptions = {},
): Promise<Status> {
  const parameters = { fresh: isFresh ? "" : undefined };
  return readStatus(
    await ask(daemon, "/v1/status", { parameters, ...isFresh && { timeout: FRESH_TIMEOUT } }),
  );
}

/** Asks for the objects of a node. @param options `timeout`: milliseconds for the answer */
export async function askObjects(
  daemon: Asking,
  { nodeName, timeout }: {
    readonly nodeName: string;
    readonly timeout: number;
  },
): Promise<SavedState> {
  const read = (body: AsyncIterable<Uint8Array<ArrayBuffer>>) =>
    readStateText(body, { nodeName, decode: createDecoder() });
  return await ask(daemon, "/v1/objects", { read, timeout }) as SavedState;
}

/** @param most the number of the busiest Services; `undefined`: as many as the daemon returns */
export async function askConnections(daemon: Asking, most?: number): Promise<ConnectionsReport> {
  const parameters = { top: most?.toString() };
  return readConnections(await ask(daemon, "/v1/connections", { parameters }));
}

const OTHER_PROGRAM =
  "the program at the socket is not this version of signpost: its answer has another form";

/** Asks for the command line that the daemon was started with. */
export async function askCommandLine(daemon: Asking): Promise<CommandLine> {
  const answer = await ask(daemon, "/v1/command-line");
  const [argv, folder] = [fieldAt(answer, "argv"), fieldAt(answer, "workingDirectory")];
  const isCommandLine = Array.isArray(argv) && argv.every((word) => typeof word === "string") &&
    typeof folder === "string";
  if (!isCommandLine) throw new FatalError(OTHER_PROGRAM);
  return answer as CommandLine;
}

/** Asks for the names of all Services. @param options `timeout`: milliseconds for the answer */
export async function askServices(
  daemon: Asking,
  options: { readonly timeout: number },
): Promise<readonly string[]> {
  return readList(await ask(daemon, "/v1/services", options));
}

/** Asks for the daemon's inputs beside its objects and configuration. */
export async function askInputs(daemon: Asking): Promise<DesiredInputs> {
  const answer = await ask(daemon, "/v1/inputs");
  readList(fieldAt(answer, "heldBack"));
  return plainData(answer as DesiredInputs);
}

/** Asks for the last lines of the daemon's log, and for the last changes of all Services. */
export async function askRecent(
  daemon: Asking,
): Promise<{ readonly log: readonly string[]; readonly changes: readonly HistoryEntry[] }> {
  const answer = await ask(daemon, "/v1/history");
  return { log: readList(fieldAt(answer, "log")), changes: readList(fieldAt(answer, "changes")) };
}

/** Asks for the answer about a Service or packet, without the kernel's part. @throws {FatalError} if it has none */
export async function askExplanation(
  daemon: Asking,
  { question, namespace, from }: Readonly<Record<"question" | "namespace" | "from", string>>,
): Promise<Answer> {
  const version = { name: "explainVersion", known: EXPLAIN_VERSION } as const;
  const parameters = { question, namespace, from };
  const given = await ask(daemon, "/v1/explain", { parameters });
  const answer = readAnswer<Answer | Unanswered>(given, version);
  if ("problem" in answer) throw new FatalError(answer.problem);
  return answer;
}

function readList<T>(answer: unknown): readonly T[] {
  if (Array.isArray(answer)) return plainData(answer);
  throw new FatalError(OTHER_PROGRAM);
}

/** Asks for a full sync, which the daemon makes soon. */
export async function requestFullSync(daemon: Asking): Promise<void> {
  await ask(daemon, "/v1/full-sync", { method: "POST" });
}

export class NoDaemonError extends FatalError {
  override name = "NoDaemonError";
}

/** @param options `parameters`: undefined ones are left out */
async function ask(
  { configuration: { signpost: { socket } }, runtime }: Asking,
  path: string,
  { parameters = {}, method = "GET", ...options }: Partial<Omit<DaemonRequest, "path">> & {
    readonly parameters?: Readonly<Record<string, string | undefined>>;
  } = {},
): Promise<unknown> {
  if (socket === "") throw new FatalError("--socket is empty, so the daemon cannot be asked");
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(name, value);
  }
  const where = query.size === 0 ? path : `${path}?${query}`;
  try {
    return await runtime.askDaemon(socket, { method, path: where, ...options });
  } catch (cause) {
    const message =
      `no daemon answers at ${plain(socket)}: start signpost on this node with this --socket, ` +
      "and run this command as root";
    throw new NoDaemonError(message, { cause });
  }
}
