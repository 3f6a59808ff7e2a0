/**
 * The text that `conntrack -L` prints, as values (conntrack(8), conntrack-tools).
 *
 * @module
 */
import { type Family, familyOf, parseAddress } from "../model/values/address.ts";
import { type Protocol, PROTOCOLS } from "../model/cluster/objects.ts";

/** One direction of a flow. Addresses are canonical. */
export interface Direction {
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
  /** Whether the entry is of another conntrack zone than the default one, in either direction. */
  readonly zoned: boolean;
  /** What stands in brackets: `UNREPLIED`, `ASSURED`, `OFFLOAD` and such. */
  readonly flags: readonly string[];
}

const PORT = /^\d{1,5}$/;
const FLAG = /^\[([A-Z_]{1,32})\]$/;

/**
 * Reads a listing, line by line as it is asked for. Lines that are no flow of TCP, UDP or SCTP
 * are passed over.
 *
 * @param text the standard output of `conntrack -L`, `-L -o extended` or `-D`
 */
export function* parseEntries(text: string): Generator<ConntrackEntry> {
  for (let start = 0; start < text.length;) {
    const newline = text.indexOf("\n", start);
    const end = newline < 0 ? text.length : newline;
    const entry = parseEntry(text.slice(start, end));
    if (entry) yield entry;
    start = end + 1;
  }
}

/**
 * Reads one line. Fields that are not known are passed over, so that counters, labels and
 * timestamps do no harm.
 *
 * @returns `undefined` where the line is no flow, or a part of it is not what it has to be
 */
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

/** `zone`, `zone-orig` or `zone-reply`; the default zone is not printed. */
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
