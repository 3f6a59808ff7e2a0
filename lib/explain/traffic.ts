/** Lists the conntrack entries of a Service, and counts by endpoint what is open and what has no answer. */
import { readSysctl } from "../backend/sysctl.ts";
import { type ConntrackEntry, parseEntry } from "../conntrack/tool.ts";
import { hostPort, splitHostPort } from "../model/cluster/names.ts";
import { type DesiredServicePort, servingEndpoints } from "../model/kernel/desired.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { frontendsOf } from "../policy/frontend.ts";
import { FAMILIES } from "../model/values/address.ts";
import { FatalError } from "../model/values/errors.ts";
import { count, errorText, grouped, shortList } from "../model/values/text.ts";
import { warning } from "./finding.ts";
import type {
  EndpointTraffic,
  ExplainFinding,
  TrackedConnection,
  TrafficReport,
} from "./report.ts";

/** The most entries of a table that is listed unasked. */
const MOST_ENTRIES = 200_000;

/** Milliseconds for a listing unasked. */
const LIMIT = 1_000;

/** The most connections in an answer. */
const MOST_CONNECTIONS = 1_000;

/** The code of the finding on attempts without an answer. */
export const UNANSWERED = "unanswered-connections";

interface TrafficOptions extends Pick<Runtime, "clock" | "runner" | "streamer"> {
  readonly ownAddresses: readonly string[];
  /** True if the connections are asked for: then a large table is listed, too. */
  readonly isAsked: boolean;
}

/**
 * Lists the conntrack entries of some service ports, and counts them by endpoint.
 * @throws {FatalError} if they are asked for and cannot be listed
 */
export async function readTraffic(
  ports: readonly DesiredServicePort[],
  options: TrafficOptions,
): Promise<Readonly<{ traffic: TrafficReport; connections: readonly TrackedConnection[] }>> {
  const { runner, isAsked } = options;
  const read = async (name: string) =>
    Number(await readSysctl(runner, `net.netfilter.nf_conntrack_${name}`));
  try {
    const entries = await read("count");
    if (entries > MOST_ENTRIES && !isAsked) {
      const most = grouped(MOST_ENTRIES);
      throw new Error(`the kernel tracks ${grouped(entries)} connections, more than ${most}`);
    }
    const overSeconds = await read("tcp_timeout_syn_sent");
    const found = await countEntries(ports, { ...options, overSeconds });
    const { lines, connections, endpoints } = found;
    if (lines === 0 && entries > 0) throw new Error("conntrack -L printed nothing: run it as root");
    return { traffic: { reason: "", overSeconds, endpoints }, connections };
  } catch (error) {
    const reason = errorText(error);
    if (isAsked) throw new FatalError(`--conntrack: ${reason}`);
    return { traffic: { reason, overSeconds: 0, endpoints: [] }, connections: [] };
  }
}

/** Yields each line of the table. @throws {Error} if it takes too long */
async function* linesOf({ clock, streamer, isAsked }: TrafficOptions): AsyncGenerator<string> {
  const over = new AbortController();
  if (!isAsked) void clock.sleep(LIMIT, over.signal).then(() => over.abort());
  try {
    for (const family of FAMILIES) {
      yield* streamer.lines(["conntrack", "-L", "-f", `ipv${family}`], over.signal);
    }
    if (over.signal.aborted) throw new Error(`conntrack -L took over ${LIMIT} ms`);
  } finally {
    over.abort();
  }
}

/** Service ports by protocol and destination, as `tcp 10.96.0.10:80`. */
export type FrontendPorts = ReadonlyMap<string, DesiredServicePort>;

export function portsByFrontend(
  ports: readonly DesiredServicePort[],
  ownAddresses: readonly string[],
): FrontendPorts {
  return new Map(
    ports.flatMap((servicePort) =>
      frontendsOf(servicePort).flatMap(({ address, port }) =>
        (address === undefined ? ownAddresses : [address])
          .map((each) => [`${servicePort.protocol} ${hostPort(each, port)}`, servicePort] as const)
      )
    ),
  );
}

/** Matches the protocol and the destination that the client used, in an entry or an event. */
const DESTINATION = /\b(tcp|udp|sctp) +\d+ .*? dst=(\S+) sport=\d+ dport=(\d+) /;

/** Reads an entry or an event of `conntrack`. @returns `undefined` for other destinations, as most lines have */
export function readEntryTo(
  ports: FrontendPorts,
  line: string,
): (ConntrackEntry & Readonly<{ servicePort: DesiredServicePort; frontend: string }>) | undefined {
  const [, protocol, address = "", port] = DESTINATION.exec(line) ?? [];
  const frontend = hostPort(address, Number(port));
  const servicePort = ports.get(`${protocol} ${frontend}`);
  const entry = servicePort && parseEntry(line);
  return entry && { ...entry, servicePort, frontend };
}

/** Lists the table, and counts the entries of service ports by endpoint. @param overSeconds as in the report */
async function countEntries(
  ports: readonly DesiredServicePort[],
  { overSeconds, ...options }: TrafficOptions & Pick<TrafficReport, "overSeconds">,
) {
  const frontends = portsByFrontend(ports, options.ownAddresses);
  const connections: TrackedConnection[] = [];
  /** By protocol, address and port. */
  const endpoints = new Map<string, EndpointTraffic>();
  let lines = 0;
  for await (const line of linesOf(options)) {
    lines++;
    const entry = readEntryTo(frontends, line);
    if (!entry) continue;
    const { protocol, original, reply: { src: address, sport: port }, servicePort } = entry;
    const { flags, state, timeout } = entry;
    const endpoint = hostPort(address, port);
    const isCurrent = servingEndpoints(servicePort)
      .some((each) => each.address === address && each.port === port);
    if (connections.length < MOST_CONNECTIONS) {
      const [source, destination] = [hostPort(original.src, original.sport), entry.frontend];
      connections.push({ protocol, source, destination, endpoint, flags, isCurrent });
    }
    // Without DNAT, it began before the rules were there.
    if (address === original.dst) continue;
    const isUnreplied = flags.includes("UNREPLIED");
    const isOpen = protocol === "udp"
      ? !isUnreplied
      : flags.includes("OFFLOAD") || state === "ESTABLISHED" || state === "CLOSE_WAIT";
    // The answer to a SYN of the last second or two may be under way.
    const isFresh = state.startsWith("SYN_SENT") && timeout >= overSeconds - 1;
    const key = `${protocol} ${endpoint}`;
    const { open = 0, unanswered = 0 } = endpoints.get(key) ?? {};
    endpoints.set(key, {
      ...{ protocol, address, port, isCurrent },
      open: open + Number(isOpen),
      unanswered: unanswered + Number(isUnreplied && !isFresh),
    });
  }
  return { lines, connections, endpoints: [...endpoints.values()] };
}

/** Returns the finding on connections without an answer. UDP has protocols without answers, such as syslog. */
export function trafficFindings({ endpoints, overSeconds }: TrafficReport): ExplainFinding[] {
  const silent = endpoints
    .filter((each) => each.protocol === "tcp" && each.isCurrent && each.unanswered > 0);
  if (silent.length === 0) return [];
  const total = silent.reduce((sum, { unanswered }) => sum + unanswered, 0);
  const places = shortList(silent.map(({ address, port }) => hostPort(address, port)));
  const time = overSeconds % 60 === 0 ? count(overSeconds / 60, "minute") : `${overSeconds} s`;
  return [warning(
    UNANSWERED,
    `${count(total, "connection")} to ${places} in the last ${time} ` +
      "got no answer: its pod, a network policy or the network between the nodes drops them",
    "signpost explain NAME --probe connects to each endpoint from this node",
  )];
}

/** Finds UDP flows to addresses that are not endpoints any more. A flow lasts while packets come. */
export function connectionFindings(
  connections: readonly TrackedConnection[] | undefined,
): ExplainFinding[] {
  const stale = (connections ?? []).filter(({ protocol, isCurrent }) =>
    protocol === "udp" && !isCurrent
  );
  const [first] = stale;
  if (!first) return [];
  return [warning(
    "stale-conntrack",
    `${count(stale.length, "UDP flow")} still ${stale.length === 1 ? "goes" : "go"} to a removed ` +
      `endpoint, such as ${first.source} to ${first.destination} by ${first.endpoint}`,
    `conntrack -D -p udp --orig-dst ${splitHostPort(first.destination).hostname}`,
  )];
}
