/** `signpost observe`: shows connections to Services as they begin and end. */
import { readSysctl } from "../backend/sysctl.ts";
import type { CommandOf } from "../config/command.ts";
import { readPods } from "../daemon/objects/inspected.ts";
import { serviceNamed } from "../explain/lookup.ts";
import { askedPorts } from "../explain/service_report.ts";
import { type FrontendPorts, portsByFrontend, readEntryTo } from "../explain/traffic.ts";
import { hostPort, objectKey, serviceOf, splitHostPort, splitKey } from "../model/cluster/names.ts";
import type { Protocol } from "../model/cluster/objects.ts";
import { ProgramMissingError } from "../model/ports/ports.ts";
import { BoundedMap } from "../model/values/bounded.ts";
import { FatalError, fatalIf } from "../model/values/errors.ts";
import { errorText, grouped, plain } from "../model/values/text.ts";
import { formatDuration } from "../observe/human.ts";
import type { QueryContext } from "./context.ts";
import { readKnown } from "./objects.ts";
import { jsonText } from "./output.ts";

/** Milliseconds between two readings of lost events, and of the objects. */
const LOST_PERIOD = 1_000;
const REFRESH = 60_000;

/** The most connections whose start is remembered, and names of pods. */
const MOST = 100_000;

/** The most lines that wait. */
const CHUNK = 100;

/** Prints first packets and ends. `-b`: bytes for unread events, which take some KiB each. */
const EVENTS = [
  ...["conntrack", "-E", "-e", "NEW,DESTROY", "-o", "timestamp,id", "-b", "16777216"],
] as const;

/** Shows events until the signal aborts. @returns 0 @throws {FatalError} if objects or events cannot be read */
export async function observe(
  command: CommandOf<"observe">,
  context: QueryContext,
): Promise<number> {
  const { runtime: { clock, runner, streamer }, signal } = context;
  const events = await readSysctl(runner, "net.netfilter.nf_conntrack_events").catch(() => "");
  if (events === "0") {
    throw new FatalError(
      "the kernel does not report connections: run sysctl -w net.netfilter.nf_conntrack_events=1",
    );
  }
  const view = new EventView(command, context);
  await view.refresh();
  await view.countLost();
  const showAll = async () => {
    for await (const line of streamer.lines(EVENTS, signal)) await view.show(line);
  };
  await showAll().catch(fatalIf(ProgramMissingError));
  await view.printing;
  // A terminal's Ctrl-C may end conntrack before it aborts the signal.
  await clock.sleep(100, signal);
  if (signal.aborted) return 0;
  throw new FatalError("conntrack -E has ended: run signpost as root");
}

/** Prints the events of some Services. While it reads names, the kernel keeps the next events. */
class EventView {
  readonly #read: ReturnType<typeof eventReader>;
  #ports: FrontendPorts = new Map();
  /** Names by Service and address; `""`: not known. */
  #pods = new BoundedMap<string, string>(MOST);
  #canReadPods = true;
  /** The events that all subscriptions have lost. */
  #lost = Infinity;
  readonly #lines: string[] = [];
  /** Resolves when all lines are printed. */
  printing = Promise.resolve();
  /** Monotonic times of the next readings. */
  #nextLost = 0;
  #nextRefresh = 0;

  constructor(
    private readonly command: CommandOf<"observe">,
    private readonly context: QueryContext,
  ) {
    this.#read = eventReader(command);
  }

  /** Reads the objects. @throws {FatalError} if they cannot be read, or if the Service does not exist */
  async refresh(): Promise<void> {
    const { service, namespace, timeout } = this.command;
    this.#nextRefresh = this.context.runtime.clock.monotonic() + REFRESH;
    const known = await readKnown({ ...this.context, timeout });
    const target = service && serviceNamed(service, known);
    const ports = target
      ? askedPorts(target, known)
      : [...known.desired.services].filter(([key]) =>
        namespace === "" || splitKey(key).namespace === namespace
      ).flatMap(([, ports]) => ports);
    this.#ports = portsByFrontend(ports, known.ownAddresses);
    this.#pods = new BoundedMap(MOST);
    this.#canReadPods = true;
    if (target) await this.#readPods(objectKey(target));
  }

  /** Shows an event. Other work that is due comes first. */
  async show(line: string): Promise<void> {
    const { clock, complain } = this.context.runtime;
    const now = clock.monotonic();
    if (now >= this.#nextLost) {
      this.#nextLost = now + LOST_PERIOD;
      await this.countLost();
    }
    if (now >= this.#nextRefresh) {
      this.refresh().catch((error) =>
        complain(`signpost: the names may be outdated: ${errorText(error)}`)
      );
    }
    const event = this.#read(line, this.#ports);
    if (!event) return;
    const named = { ...event, pod: await this.#podOf(event) };
    await this.#print(named, textOf(named));
  }

  /** Returns the name of an endpoint's pod; `""`: not known. */
  async #podOf({ service, endpoint }: Omit<ObservedEvent, "pod">): Promise<string> {
    const { hostname } = splitHostPort(endpoint);
    const place = `${serviceOf(service)} ${hostname}`;
    if (this.#canReadPods && this.#pods.get(place) === undefined) {
      await this.#readPods(serviceOf(service));
      this.#pods.set(place, this.#pods.get(place) ?? "");
    }
    return this.#pods.get(place) ?? "";
  }

  async #readPods(service: string): Promise<void> {
    const { namespace, name } = splitKey(service);
    const asking = { ...this.context, client: undefined };
    const pods = await readPods({ namespace, service: name }, asking);
    this.#canReadPods = pods !== undefined;
    for (const { address, name } of pods ?? []) this.#pods.set(`${service} ${address}`, name);
  }

  /** Runs `cat`, because Deno lets no code read this file. The first reading only counts what others lost. */
  async countLost(): Promise<void> {
    // The signal of a terminal's Ctrl-C ends `cat`, too.
    const listing = await this.context.runtime.runner.run(["cat", "/proc/net/netlink"])
      .catch(() => undefined);
    if (listing?.code !== 0) return;
    const lost = lostEvents(listing.stdout);
    const count = lost - this.#lost;
    this.#lost = lost;
    if (count <= 0) return;
    const text = `… ${grouped(count)} events were lost: ` +
      "the kernel reports more connections than signpost can read";
    await this.#print({ event: "lost", count }, text);
  }

  /** Prints lines together that come during a print, because a print of one line costs much time. */
  async #print(value: object, text: string): Promise<void> {
    const line = this.command.output === "json" ? jsonText(value, 0) : plain(text);
    const all = () => this.context.runtime.print(this.#lines.splice(0).join(""));
    if (this.#lines.push(`${line}\n`) === 1) this.printing = this.printing.then(all);
    if (this.#lines.length >= CHUNK) await this.printing;
  }
}

function textOf({ time, event, client, service, frontend, ...rest }: ObservedEvent): string {
  const { endpoint, pod, protocol, seconds } = rest;
  const after = seconds === null ? "" : ` after ${formatDuration(seconds)}`;
  const what = `${event.replace("-", " ").toUpperCase()}${after}`.padEnd(22);
  return `${time.slice(11, 23)} ${what} ${client} → ${service} (${frontend}/${protocol}) → ` +
    `${endpoint}${pod && ` (${pod})`}`;
}

export interface ObservedEvent {
  /** RFC 3339. */
  readonly time: string;
  /** `refused`: the endpoint or a rule on the way rejected the first packet; `no-answer`: it got no answer. */
  readonly event: "new" | "end" | "refused" | "no-answer";
  readonly protocol: Protocol;
  readonly client: string;
  /** `namespace/name:port`. */
  readonly service: string;
  readonly frontend: string;
  readonly endpoint: string;
  /** The time since the first packet; `null`: it was not seen. */
  readonly seconds: number | null;
  /** The name of the endpoint's pod; `""`: not known. */
  readonly pod: string;
}

/** Matches the time in seconds, and the type of an event. */
const HEAD = /^\[(\d+\.\d+)\]\s+\[(NEW|DESTROY)\] /;

const ID = / id=(\d+)/;

/** Returns a function that reads a line of `EVENTS`; `undefined`: it is about another connection. */
export function eventReader(
  filter: Pick<CommandOf<"observe">, "client" | "endpoint">,
): (line: string, ports: FrontendPorts) => Omit<ObservedEvent, "pod"> | undefined {
  /** The start of each connection in seconds, by the kernel's number. */
  const startTimes = new BoundedMap<string, number>(MOST);
  return (line, ports) => {
    const entry = readEntryTo(ports, line);
    const [, seconds, type] = HEAD.exec(line) ?? [];
    if (!entry || type === undefined) return undefined;
    const { protocol, original, reply, flags, state, servicePort, frontend } = entry;
    if (![original.src, ""].includes(filter.client)) return undefined;
    if (![reply.src, ""].includes(filter.endpoint)) return undefined;
    const [, id = ""] = ID.exec(line) ?? [];
    const time = Number(seconds);
    const started = startTimes.get(id);
    if (type === "NEW") startTimes.set(id, time);
    else startTimes.delete(id);
    // A reset that answers the first packet ends a connection at once, and sets no reply.
    const end = !flags.includes("UNREPLIED") ? "end" : state === "CLOSE" ? "refused" : "no-answer";
    return {
      time: new Date(1000 * time).toISOString(),
      event: type === "NEW" ? "new" : end,
      protocol,
      client: hostPort(original.src, original.sport),
      service: servicePort.name,
      frontend,
      endpoint: hostPort(reply.src, reply.sport),
      seconds: type === "NEW" || started === undefined
        ? null
        : Math.round(1000 * Math.max(0, time - started)) / 1000,
    };
  };
}

/** Matches a subscription to these events, as `/proc/net/netlink` lists it. */
const SUBSCRIPTION = /^\S+ +12 +\d+ +0*5 +(?:\d+ +){4}(\d+) /gm;

/** Returns the lost events of all subscriptions. */
export function lostEvents(netlink: string): number {
  return [...netlink.matchAll(SUBSCRIPTION)].reduce((sum, [, lost]) => sum + Number(lost), 0);
}
