/** Turns the kernel's events on connections into lines about Services. */
import { hostPort } from "../model/cluster/names.ts";
import type { Protocol } from "../model/cluster/objects.ts";
import type { DesiredServicePort } from "../model/kernel/desired.ts";
import { BoundedMap } from "../model/values/bounded.ts";
import { portsByFrontend, readEntryTo } from "./traffic.ts";

/** Prints first packets and ends. The kernel keeps events in the buffer, some KiB each, while nothing reads them. */
export const EVENTS = [
  ...["conntrack", "-E", "-e", "NEW,DESTROY", "-o", "timestamp,id", "-b", "16777216"],
] as const;

/** The most connections whose beginning is remembered. */
const MOST_OPEN = 100_000;

export interface ObservedEvent {
  /** RFC 3339. */
  readonly time: string;
  /** `refused`: the endpoint, or a rule on the way, rejected the first packet; `no-answer`: none came. */
  readonly event: "new" | "end" | "refused" | "no-answer";
  readonly protocol: Protocol;
  readonly client: string;
  /** `namespace/name:port`. */
  readonly service: string;
  readonly frontend: string;
  readonly endpoint: string;
  /** The name of the endpoint's pod; `""`: not known. */
  readonly pod: string;
  /** Since the first packet; `null`: it was not seen. */
  readonly seconds: number | null;
}

interface ObservedFilter {
  /** An address; `""`: all. */
  readonly client: string;
  readonly endpoint: string;
}

/** Matches the time in seconds, and the type of an event. */
const HEAD = /^\[(\d+\.\d+)\]\s+\[(NEW|DESTROY)\] /;

const ID = / id=(\d+)/;

export class Observer {
  #ports: ReadonlyMap<string, DesiredServicePort> = new Map();
  /** The beginnings of connections by the kernel's number, in seconds. */
  readonly #begun = new BoundedMap<string, number>(MOST_OPEN);

  constructor(private readonly filter: ObservedFilter) {}

  /** Takes the present ports of the Services that are observed. */
  follow(ports: readonly DesiredServicePort[], ownAddresses: readonly string[]): void {
    this.#ports = portsByFrontend(ports, ownAddresses);
  }

  /** @param line of `EVENTS` @returns `undefined` if it is not about a Service that is observed */
  read(line: string): ObservedEvent | undefined {
    const entry = readEntryTo(this.#ports, line);
    const [, seconds, type] = HEAD.exec(line) ?? [];
    if (!entry || type === undefined) return undefined;
    const { protocol, original, reply, flags, servicePort, frontend } = entry;
    const { client, endpoint } = this.filter;
    if (client !== "" && client !== original.src) return undefined;
    if (endpoint !== "" && endpoint !== reply.src) return undefined;
    const [, id = ""] = ID.exec(line) ?? [];
    const time = Number(seconds);
    const begun = this.#begun.get(id);
    if (type === "NEW") this.#begun.set(id, time);
    else this.#begun.delete(id);
    // A reset that answers the first packet ends a connection at once, and sets no reply.
    const end = !flags.includes("UNREPLIED")
      ? "end"
      : / CLOSE /.test(line)
      ? "refused"
      : "no-answer";
    return {
      time: new Date(1000 * time).toISOString(),
      event: type === "NEW" ? "new" : end,
      protocol,
      client: hostPort(original.src, original.sport),
      service: servicePort.name,
      frontend,
      endpoint: hostPort(reply.src, reply.sport),
      pod: "",
      seconds: type === "NEW" || begun === undefined
        ? null
        : Math.round(1000 * Math.max(0, time - begun)) / 1000,
    };
  }
}

/** A subscription to these events, as `/proc/net/netlink` lists it. */
const SUBSCRIPTION = /^\S+ +12 +\d+ +0*5 +(?:\d+ +){4}(\d+) +(\d+)/gm;

/** Returns the lost events of each subscription, by inode. */
export function lostEvents(netlink: string): ReadonlyMap<string, number> {
  return new Map(
    [...netlink.matchAll(SUBSCRIPTION)].map(([, lost, inode = ""]) => [inode, Number(lost)]),
  );
}
