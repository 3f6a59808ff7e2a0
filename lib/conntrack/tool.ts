/** Runs the program `conntrack` (conntrack-tools), and reads its answers. */
import { type Family, familyOf, parseAddress } from "../model/values/address.ts";
import type { ProcessResult, ProcessRunner } from "../model/ports/ports.ts";
import { eachLine, oneLine } from "../model/values/text.ts";
import { type Protocol, PROTOCOLS } from "../model/cluster/objects.ts";

/** Reports that `conntrack` ran and failed. The message is one line. */
export class ConntrackError extends Error {
  override name = "ConntrackError";
}

/** Selects entries that may be stale: for TCP and SCTP, only entries of a first packet without an answer. */
const FILTERS: Readonly<Record<Protocol, string>> = {
  udp: "-p udp",
  tcp: "-p tcp --state SYN_SENT",
  sctp: "-p sctp --state COOKIE_WAIT",
};

/** Returns `conntrack`'s arguments that delete these entries, once for each destination with its answering address. */
export function deletionsOf(entries: Iterable<ConntrackEntry>): ReadonlySet<string> {
  const deletions = new Set<string>();
  for (const { family, protocol, original, reply } of entries) {
    const isUntranslated = original.dst === reply.src && original.dport === reply.sport;
    deletions.add(
      `-D -f ipv${family} ${FILTERS[protocol]} ` +
        `--orig-dst ${original.dst} --orig-port-dst ${original.dport} ` +
        `--reply-src ${reply.src} --reply-port-src ${reply.sport}` +
        // Only entries of the default zone.
        (isUntranslated ? " -w 0" : ""),
    );
  }
  return deletions;
}

/** Lists entries that may be stale, of one port or of all ports. @throws {ConntrackError} and the errors of `run` */
export async function listEntries(
  runner: ProcessRunner,
  { family, protocol, port }: {
    readonly family: Family;
    readonly protocol: Protocol;
    readonly port?: number | undefined;
  },
): Promise<Iterable<ConntrackEntry>> {
  const filter = port === undefined ? "" : ` --orig-port-dst ${port}`;
  const args = `-L -f ipv${family} ${FILTERS[protocol]}${filter}`;
  const result = await runner.run(["conntrack", ...args.split(" ")]);
  if (result.code !== 0) throw failure("list conntrack entries", result);
  return parseEntries(result.stdout);
}

/** Deletes entries of `deletionsOf`. @returns their number @throws {ConntrackError} and the errors of `run` */
export async function deleteEntries(runner: ProcessRunner, deletion: string): Promise<number> {
  const result = await runner.run(["conntrack", ...deletion.split(" ")]);
  const isNothing = result.code === 1 && /\b0 flow entries have been deleted/.test(result.stderr);
  if (result.code !== 0 && !isNothing) throw failure("delete stale conntrack entries", result);
  // conntrack prints each entry that it deleted.
  return [...parseEntries(result.stdout)].length;
}

/** Older kernels refuse to delete a connection that takes the fast path. */
const BUSY_ADVICE = "; this kernel keeps connections on the fast path: " +
  "use Linux 5.10.183, 5.15.115, 6.1.32, 6.4 or a later one, or unset signpost.acceleration";

function failure(action: string, { code, stderr }: ProcessResult): ConntrackError {
  const line = stderr.split("\n").find((each) => each.trim() !== "") ?? "it gives no reason";
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
  /** The packets from the client, whose destination may be a virtual IP. */
  readonly original: Direction;
  /** The answers, whose source is the endpoint of the flow. */
  readonly reply: Direction;
  /** True if the entry is outside of the default conntrack zone in either direction. */
  readonly zoned: boolean;
  /** The words in brackets: `UNREPLIED`, `ASSURED`, `OFFLOAD` and such. */
  readonly flags: readonly string[];
  /** The state of TCP or SCTP, such as `SYN_SENT`; `""` without a state. */
  readonly state: string;
  /** The seconds until an entry with a state ends; 0 if unknown. */
  readonly timeout: number;
}

/** Matches a direction. Both have the same fields, and the original direction comes first. */
const DIRECTION = / src=(\S+) dst=(\S+) sport=(\d{1,5}) dport=(\d{1,5})(?= |$)/g;
const FLAG = / \[([A-Z_]{1,32})\](?= |$)/g;
/** Matches a zone that is not the default zone. conntrack does not print the default zone. */
const ZONE = / zone(?:-orig|-reply)?=(?!0(?: |$))/;

/** Matches protocol, timeout and state, which end the text before the directions. An event may lack the timeout. */
const STATE = /(?:tcp|sctp) +\d+(?: (\d+))? ([A-Z][A-Z_\d]{1,32})$/;

/** Reads the output of `conntrack -L`, `-L -o extended` or `-D`. It skips lines that are not a flow. */
export function* parseEntries(text: string): Generator<ConntrackEntry> {
  for (const line of eachLine(text)) {
    const entry = parseEntry(line);
    if (entry) yield entry;
  }
}

/** Reads one line, without unknown fields. @returns `undefined` if it is not a valid flow */
export function parseEntry(line: string): ConntrackEntry | undefined {
  const [start = ""] = line.split(" src=", 1);
  const protocol = PROTOCOLS.find((each) => start.split(" ").includes(each));
  const [original, reply] = [...line.matchAll(DIRECTION)].map(parseDirection);
  if (!protocol || !original || !reply) return undefined;
  const family = familyOf(original.src);
  if (family !== familyOf(reply.src)) return undefined;
  const flags = [...line.matchAll(FLAG)].map(([, flag = ""]) => flag);
  const [, timeout = 0, state = ""] = STATE.exec(start) ?? [];
  const zoned = ZONE.test(line);
  return { family, protocol, original, reply, zoned, flags, state, timeout: Number(timeout) };
}

function parseDirection(
  [, from, to, fromPort, toPort]: RegExpMatchArray,
): Direction | undefined {
  const src = parseAddress(from);
  const dst = parseAddress(to);
  const [sport, dport] = [Number(fromPort), Number(toPort)];
  if (src === undefined || dst === undefined || familyOf(src) !== familyOf(dst)) return undefined;
  return sport > 65535 || dport > 65535 ? undefined : { src, dst, sport, dport };
}
