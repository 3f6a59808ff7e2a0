/** Counts the tracked connections to each endpoint of a Service, and those that got no answer. */
import { readSysctl } from "../backend/sysctl.ts";
import { parseEntry } from "../conntrack/tool.ts";
import { hostPort } from "../model/cluster/names.ts";
import { type DesiredServicePort, servingEndpoints } from "../model/kernel/desired.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { FAMILIES, type Family } from "../model/values/address.ts";
import { count, errorText, grouped } from "../model/values/text.ts";
import { note, warning } from "./finding.ts";
import { portsByFrontend } from "./kernel.ts";
import type { EndpointTraffic, Finding, TrafficReport } from "./report.ts";

/** A larger table is not listed. */
const MOST_ENTRIES = 200_000;

/** Milliseconds that a listing may take. */
const LIMIT = 1_000;

/** The code of the finding on attempts without an answer. */
export const UNANSWERED = "unanswered-connections";

interface TrafficOptions extends Pick<Runtime, "clock" | "runner" | "streamer"> {
  readonly ownAddresses: readonly string[];
}

/** Lists the kernel's connections and counts those to some service ports. Never rejects. */
export async function readTraffic(
  ports: readonly DesiredServicePort[],
  options: TrafficOptions,
): Promise<TrafficReport> {
  const unread = { reason: "", overSeconds: 0, endpoints: [] };
  const read = async (name: string) =>
    Number(await readSysctl(options.runner, `net.netfilter.nf_conntrack_${name}`));
  try {
    const entries = await read("count");
    if (entries > MOST_ENTRIES) {
      const most = grouped(MOST_ENTRIES);
      const reason = `the kernel tracks ${grouped(entries)} connections, more than ${most}`;
      return { ...unread, reason };
    }
    const overSeconds = await read("tcp_timeout_syn_sent");
    const counter = new Counter(ports, { ...options, overSeconds });
    const lines = await listInTime(options, (line) => counter.add(line));
    if (lines === undefined) return { ...unread, reason: `conntrack -L took over ${LIMIT} ms` };
    if (lines === 0 && entries > 0) {
      return { ...unread, reason: "conntrack -L printed nothing: run it as root" };
    }
    return { reason: "", overSeconds, endpoints: counter.endpoints() };
  } catch (error) {
    return { ...unread, reason: errorText(error) };
  }
}

/** Gives each entry to a function. @returns the number of entries; `undefined`: the time is over */
async function listInTime(
  { clock, streamer }: TrafficOptions,
  add: (line: string) => void,
): Promise<number | undefined> {
  const [late, done] = [new AbortController(), new AbortController()];
  void clock.sleep(LIMIT, done.signal).then(() => late.abort());
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

/** Counts entries by endpoint. */
class Counter {
  readonly #ports: ReadonlyMap<string, DesiredServicePort>;
  /** Texts one of which is in each entry of these ports. */
  readonly #marks: readonly string[];
  readonly #overSeconds: number;
  readonly #found = new Map<string, EndpointTraffic>();

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
    const servicePort = this.#ports.get(`${protocol} ${hostPort(original.dst, original.dport)}`);
    const isServed = servicePort && servingEndpoints(servicePort)
      .some((each) => each.address === address && each.port === port);
    if (!isServed) return;
    const key = `${protocol} ${hostPort(address, port)}`;
    const { open, unanswered } = this.#found.get(key) ?? { open: 0, unanswered: 0 };
    const isUnreplied = flags.includes("UNREPLIED");
    const isOpen = protocol === "udp"
      ? !isUnreplied
      : flags.includes("OFFLOAD") || / (?:ESTABLISHED|CLOSE_WAIT) /.test(line);
    const isUnanswered = isUnreplied && !(protocol === "tcp" && this.#isFresh(line));
    this.#found.set(key, {
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

  endpoints(): EndpointTraffic[] {
    return [...this.#found.values()];
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
