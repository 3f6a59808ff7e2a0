/** Lists the tracked connections to a Service, and counts those to each endpoint and those without an answer. */
import { readSysctl } from "../backend/sysctl.ts";
import { parseEntry } from "../conntrack/tool.ts";
import { hostPort } from "../model/cluster/names.ts";
import { type DesiredServicePort, servingEndpoints } from "../model/kernel/desired.ts";
import { ProgramMissingError } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { frontendsOf } from "../policy/frontend.ts";
import { FAMILIES, type Family } from "../model/values/address.ts";
import { FatalError } from "../model/values/errors.ts";
import { count, errorText, grouped } from "../model/values/text.ts";
import { note, warning } from "./finding.ts";
import type { EndpointTraffic, Finding, TrackedConnection, TrafficReport } from "./report.ts";

/** A larger table is not listed. */
const MOST_ENTRIES = 200_000;

/** Milliseconds that a listing may take. */
const LIMIT = 1_000;

/** The same, if the connections are asked for. */
const ASKED_LIMIT = 60_000;

/** The most connections in an answer. */
const MOST_CONNECTIONS = 1_000;

/** The code of the finding on attempts without an answer. */
export const UNANSWERED = "unanswered-connections";

interface TrafficOptions extends Pick<Runtime, "clock" | "runner" | "streamer"> {
  readonly ownAddresses: readonly string[];
  /** True if the connections themselves are asked for: a large table is listed, too. */
  readonly isAsked: boolean;
}

interface Traffic {
  readonly traffic: TrafficReport;
  /** The same counts of places that serve no longer, such as endpoints that terminate. */
  readonly left: readonly EndpointTraffic[];
  readonly connections: readonly TrackedConnection[];
}

/**
 * Lists the kernel's connections once, and picks those to some service ports.
 * @throws {FatalError} if they are asked for and cannot be listed
 */
export async function readTraffic(
  ports: readonly DesiredServicePort[],
  options: TrafficOptions,
): Promise<Traffic> {
  const { isAsked } = options;
  const read = async (name: string) =>
    Number(await readSysctl(options.runner, `net.netfilter.nf_conntrack_${name}`));
  const unread = (reason: string) => {
    if (isAsked) throw new FatalError(`--conntrack: ${reason}`);
    return { traffic: { reason, overSeconds: 0, endpoints: [] }, left: [], connections: [] };
  };
  try {
    const entries = await read("count");
    if (entries > MOST_ENTRIES && !isAsked) {
      const most = grouped(MOST_ENTRIES);
      return unread(`the kernel tracks ${grouped(entries)} connections, more than ${most}`);
    }
    const overSeconds = await read("tcp_timeout_syn_sent");
    const counter = new Counter(ports, { ...options, overSeconds });
    const lines = await listInTime(options, (line) => counter.add(line));
    if (lines === undefined) return unread(`conntrack -L took over ${limitOf(options)} ms`);
    if (lines === 0 && entries > 0) {
      return unread("conntrack -L printed nothing: run it as root");
    }
    const { connections, served, left } = counter;
    const endpoints = [...served.values()];
    const traffic = { reason: "", overSeconds, endpoints };
    return { traffic, left: [...left.values()], connections };
  } catch (error) {
    if (error instanceof FatalError) throw error;
    return unread(
      error instanceof ProgramMissingError
        ? "it needs the program conntrack (package conntrack-tools)"
        : errorText(error),
    );
  }
}

function limitOf({ isAsked }: Pick<TrafficOptions, "isAsked">): number {
  return isAsked ? ASKED_LIMIT : LIMIT;
}

/** Gives each entry to a function. @returns the number of entries; `undefined`: the time is over */
async function listInTime(
  { clock, streamer, isAsked }: TrafficOptions,
  add: (line: string) => void,
): Promise<number | undefined> {
  const [late, done] = [new AbortController(), new AbortController()];
  void clock.sleep(limitOf({ isAsked }), done.signal).then(() => late.abort());
  let lines = 0;
  const list = async (family: Family) => {
    const argv = ["conntrack", "-L", "-f", `ipv${family}`] as const;
    for await (const line of streamer.lines(argv, late.signal)) {
      lines++;
      add(line);
    }
  };
  try {
    await Promise.all(FAMILIES.map(list));
    return late.signal.aborted ? undefined : lines;
  } finally {
    done.abort();
    // Ends the other listing if one failed.
    late.abort();
  }
}

/** Returns the ports by protocol and destination, as `tcp 10.96.0.10:80`. */
export function portsByFrontend(
  ports: readonly DesiredServicePort[],
  ownAddresses: readonly string[],
): ReadonlyMap<string, DesiredServicePort> {
  return new Map(
    ports.flatMap((servicePort) =>
      frontendsOf(servicePort).flatMap(({ address, port }) =>
        (address === undefined ? ownAddresses : [address])
          .map((each) => [`${servicePort.protocol} ${hostPort(each, port)}`, servicePort] as const)
      )
    ),
  );
}

/** Collects entries of service ports, and counts them by endpoint. */
class Counter {
  readonly connections: TrackedConnection[] = [];
  readonly #ports: ReadonlyMap<string, DesiredServicePort>;
  /** Texts one of which is in each entry of these ports. */
  readonly #marks: readonly string[];
  readonly #overSeconds: number;
  /** By protocol, address and port: endpoints of now, and other places. */
  readonly served = new Map<string, EndpointTraffic>();
  readonly left = new Map<string, EndpointTraffic>();

  constructor(
    ports: readonly DesiredServicePort[],
    { ownAddresses, overSeconds }: Pick<TrafficOptions, "ownAddresses"> & {
      readonly overSeconds: number;
    },
  ) {
    this.#ports = portsByFrontend(ports, ownAddresses);
    const numbers = ports.flatMap(({ port, nodePort }) => [port, nodePort]);
    this.#marks = [...new Set(numbers)].map((port) => ` dport=${port} `);
    this.#overSeconds = overSeconds;
  }

  /** @param line as `conntrack -L` prints it */
  add(line: string): void {
    if (!this.#marks.some((mark) => line.includes(mark))) return;
    const entry = parseEntry(line);
    if (!entry) return;
    const { protocol, original, reply: { src: address, sport: port }, flags } = entry;
    const destination = hostPort(original.dst, original.dport);
    const servicePort = this.#ports.get(`${protocol} ${destination}`);
    if (!servicePort) return;
    const isServed = servingEndpoints(servicePort)
      .some((each) => each.address === address && each.port === port);
    if (this.connections.length < MOST_CONNECTIONS) {
      this.connections.push({
        protocol,
        source: hostPort(original.src, original.sport),
        destination,
        endpoint: hostPort(address, port),
        flags,
        isCurrent: isServed,
      });
    }
    const found = isServed ? this.served : this.left;
    const key = `${protocol} ${hostPort(address, port)}`;
    const { open, unanswered } = found.get(key) ?? { open: 0, unanswered: 0 };
    const isUnreplied = flags.includes("UNREPLIED");
    const isOpen = protocol === "udp"
      ? !isUnreplied
      : flags.includes("OFFLOAD") || / (?:ESTABLISHED|CLOSE_WAIT) /.test(line);
    const isUnanswered = isUnreplied && !(protocol === "tcp" && this.#isFresh(line));
    found.set(key, {
      protocol,
      address,
      port,
      open: open + Number(isOpen),
      unanswered: unanswered + Number(isUnanswered),
    });
  }

  /** Returns true if the last packet was sent within a second or two: the answer may be under way. */
  #isFresh(line: string): boolean {
    const [, seconds] = / (\d+) SYN_SENT/.exec(line) ?? [];
    return Number(seconds) >= this.#overSeconds - 1;
  }
}

/** Says what connections without an answer mean. */
export function trafficFindings({ endpoints, overSeconds }: TrafficReport): Finding[] {
  const silent = (protocol: string) =>
    endpoints.filter((each) => each.protocol === protocol && each.unanswered > 0)
      .sort((a, b) => b.unanswered - a.unanswered);
  const place = ({ address, port }: EndpointTraffic, others: number) =>
    `${hostPort(address, port)}${others > 0 ? ` (and to ${count(others, "more endpoint")})` : ""}`;
  const [tcp] = silent("tcp");
  const [udp] = silent("udp");
  const time = overSeconds % 60 === 0 ? count(overSeconds / 60, "minute") : `${overSeconds} s`;
  return [
    ...tcp
      ? [warning(
        UNANSWERED,
        `${count(tcp.unanswered, "connection")} to ${
          place(tcp, silent("tcp").length - 1)
        } in the ` +
          `last ${time} got no answer: its pod, a network policy or the network between the ` +
          "nodes drops them",
        "signpost explain NAME --probe connects to each endpoint from this node",
      )]
      : [],
    ...udp
      ? [note(
        "unanswered-flows",
        `${count(udp.unanswered, "UDP flow")} to ${place(udp, silent("udp").length - 1)} got no ` +
          "answer: some protocols, such as syslog, have none",
      )]
      : [],
  ];
}
