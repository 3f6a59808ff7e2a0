/** Runs the program `conntrack` (conntrack-tools), and reads its answers. */
import { type Family, familyOf, parseAddress } from "../model/values/address.ts";
import {
  type ProcessResult,
  type ProcessRunner,
  ProgramFailedError,
} from "../model/ports/ports.ts";
import { eachLine, oneLine } from "../model/values/text.ts";
import { type Protocol, PROTOCOLS } from "../model/cluster/objects.ts";

/** `conntrack` was run, and failed. The message is one line. */
export class ConntrackError extends Error {
  override name = "ConntrackError";
}

/**
 * Returns the arguments of `conntrack` that delete these entries, addresses and numbers only. Entries with one
 * destination and one source of answers are one deletion: all are stale, or none is.
 */
export function deletionsOf(entries: Iterable<ConntrackEntry>): string[][] {
  const deletions = new Map<string, string[]>();
  for (const { family, original, reply } of entries) {
    const isUntranslated = original.dst === reply.src && original.dport === reply.sport;
    const args = [
      "-D",
      ...protocolArguments(family),
      ...["--orig-dst", original.dst, "--orig-port-dst", `${original.dport}`],
      ...["--reply-src", reply.src, "--reply-port-src", `${reply.sport}`],
      // Only entries of the default zone.
      ...(isUntranslated ? ["-w", "0"] : []),
    ];
    deletions.set(args.join(" "), args);
  }
  return [...deletions.values()];
}

function protocolArguments(family: Family): string[] {
  return ["-f", `ipv${family}`, "-p", "udp"];
}

/** Runs `conntrack`. Its methods throw `ConntrackError`, or `ProgramMissingError` without the program. */
export class ConntrackTool {
  /** @param runner runs `conntrack`, as root or with CAP_NET_ADMIN */
  constructor(private readonly runner: ProcessRunner) {}

  /** Lists the UDP entries of a family. */
  async list(family: Family): Promise<Iterable<ConntrackEntry>> {
    const result = await this.#run(["-L", ...protocolArguments(family)]);
    if (result.code !== 0) throw failure("list conntrack entries", result);
    return parseEntries(result.stdout);
  }

  /** Deletes entries of `deletionsOf`. It is no error if they are gone. @returns the number of deleted entries */
  async delete(deletion: readonly string[]): Promise<number> {
    const result = await this.#run(deletion);
    const isNothing = result.code === 1 && /\b0 flow entries have been deleted/.test(result.stderr);
    if (result.code !== 0 && !isNothing) {
      throw failure("delete stale UDP conntrack entries", result);
    }
    // It prints each entry that it deleted.
    return [...parseEntries(result.stdout)].length;
  }

  async #run(args: readonly string[]): Promise<ProcessResult> {
    try {
      return await this.runner.run(["conntrack", ...args]);
    } catch (error) {
      if (!(error instanceof ProgramFailedError)) throw error;
      throw new ConntrackError(`stale UDP conntrack entries are not deleted: ${error.message}`, {
        cause: error,
      });
    }
  }
}

/** Older kernels refuse to delete a connection that takes the fast path. */
const BUSY_ADVICE = "; this kernel keeps connections on the fast path: " +
  "use Linux 5.10.183, 5.15.115, 6.1.32, 6.4 or a later one, or unset signpost.acceleration";

function failure(action: string, { code, stderr }: ProcessResult): ConntrackError {
  const line = stderr.split("\n").find((each) => each.trim() !== "") ?? "it does not say why";
  const advice = line.includes("resource busy") ? BUSY_ADVICE : "";
  return new ConntrackError(
    `conntrack cannot ${action} (exit ${code}): ${oneLine(line, 200)}${advice}`,
  );
}

/** One direction of a flow. Addresses are canonical. */
interface Direction {
  readonly src: string;
  readonly dst: string;
  readonly sport: number;
  readonly dport: number;
}

/** One flow that the kernel tracks. */
export interface ConntrackEntry {
  readonly family: Family;
  readonly protocol: Protocol;
  /** As the client sent it: its destination may be a virtual IP. */
  readonly original: Direction;
  /** As answers come: their source is the endpoint that the flow was sent to. */
  readonly reply: Direction;
  /** True if the entry is of another conntrack zone than the default one, in either direction. */
  readonly zoned: boolean;
  /** The words in brackets: `UNREPLIED`, `ASSURED`, `OFFLOAD` and such. */
  readonly flags: readonly string[];
}

const PORT = /^\d{1,5}$/;
const FLAG = /^\[([A-Z_]{1,32})\]$/;

/** Reads the output of `conntrack -L`, `-L -o extended` or `-D`. It skips lines that are no flow. */
export function* parseEntries(text: string): Generator<ConntrackEntry> {
  for (const line of eachLine(text)) {
    const entry = parseEntry(line);
    if (entry) yield entry;
  }
}

/** Reads one line, without unknown fields. @returns `undefined` if it is no valid flow */
export function parseEntry(line: string): ConntrackEntry | undefined {
  const words = line.split(" ").filter((word) => word !== "");
  const protocol = words.find(isProtocol);
  const original = new Map<string, string>();
  const reply = new Map<string, string>();
  const flags: string[] = [];
  for (const word of words) {
    const flag = FLAG.exec(word)?.[1];
    const equals = word.indexOf("=");
    if (flag !== undefined) flags.push(flag);
    if (equals <= 0) continue;
    // Both directions have the same fields; the original one comes first.
    const name = word.slice(0, equals);
    (original.has(name) ? reply : original).set(name, word.slice(equals + 1));
  }
  const there = parseDirection(original);
  const back = parseDirection(reply);
  if (!protocol || !there || !back || familyOf(there.src) !== familyOf(back.src)) return undefined;
  return {
    family: familyOf(there.src),
    protocol,
    original: there,
    reply: back,
    zoned: isZoned(original),
    flags,
  };
}

function isProtocol(word: string): word is Protocol {
  return PROTOCOLS.some((each) => each === word);
}

/** Returns true for a zone other than the default one, which is not printed. */
function isZoned(fields: ReadonlyMap<string, string>): boolean {
  return ["zone", "zone-orig", "zone-reply"].some((name) => (fields.get(name) ?? "0") !== "0");
}

function parseDirection(fields: ReadonlyMap<string, string>): Direction | undefined {
  const src = parseAddress(fields.get("src"));
  const dst = parseAddress(fields.get("dst"));
  const sport = parsePort(fields.get("sport"));
  const dport = parsePort(fields.get("dport"));
  if (src === undefined || dst === undefined || familyOf(src) !== familyOf(dst)) return undefined;
  return sport === undefined || dport === undefined ? undefined : { src, dst, sport, dport };
}

function parsePort(text: string | undefined): number | undefined {
  if (text === undefined || !PORT.test(text)) return undefined;
  const port = Number(text);
  return port <= 65535 ? port : undefined;
}
