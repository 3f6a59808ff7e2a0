/** `signpost observe`: shows connections to Services as they begin and end. */
import { readSysctl } from "../backend/sysctl.ts";
import type { CommandOf } from "../config/command.ts";
import { readPods } from "../daemon/objects/inspected.ts";
import { serviceNamed } from "../explain/lookup.ts";
import { askedPorts } from "../explain/service_report.ts";
import { portsByFrontend, readEntryTo } from "../explain/traffic.ts";
import { hostPort, objectKey, serviceOf, splitHostPort, splitKey } from "../model/cluster/names.ts";
import type { Protocol } from "../model/cluster/objects.ts";
import type { DesiredServicePort } from "../model/kernel/desired.ts";
import { ProgramMissingError } from "../model/ports/ports.ts";
import { BoundedMap } from "../model/values/bounded.ts";
import { FatalError } from "../model/values/errors.ts";
import { errorText, grouped, plain } from "../model/values/text.ts";
import { formatDuration } from "../observe/human.ts";
import type { QueryContext } from "./context.ts";
import { readKnown } from "./objects.ts";
import { jsonText } from "./output.ts";

/** Milliseconds until a line is printed, and between two readings of lost events. */
const DELAY = 100;
const LOST_PERIOD = 1_000;

/** Milliseconds after which the objects, and the names of a Service's pods, are read again. */
const REFRESH = 60_000;
const REFRESH_PODS = 5_000;

/** The most connections whose start is remembered, names of pods, and Services with known pods. */
const MOST = 100_000;

/** The most lines that wait. */
const CHUNK = 100;

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
  const done = new AbortController();
  const either = AbortSignal.any([signal, done.signal]);
  const periodic = view.runPeriodically(either);
  try {
    for await (const line of streamer.lines(EVENTS, either)) await view.add(line);
  } catch (error) {
    if (!(error instanceof ProgramMissingError)) throw error;
    throw new FatalError("observe needs the program conntrack (package conntrack-tools)");
  } finally {
    done.abort();
    await periodic;
  }
  // A terminal's Ctrl-C may end conntrack before it aborts the signal.
  await clock.sleep(DELAY, signal);
  if (signal.aborted) return 0;
  throw new FatalError("conntrack -E has ended: run signpost as root");
}

/** Prints the events of some Services. */
class EventView {
  readonly #read: ReturnType<typeof eventReader>;
  #ports: ReadonlyMap<string, DesiredServicePort> = new Map();
  /** By Service and address. */
  readonly #pods = new BoundedMap<string, string>(MOST);
  /** By Service, the monotonic time of the last answer about its pods. */
  readonly #asked = new BoundedMap<string, number>(MOST);
  #isAsking = false;
  /** Makes lines when they are printed: a name may have come. One print of many lines costs less time. */
  #waiting: (() => string)[] = [];
  /** The events that all subscriptions have lost, and those that were lost here. */
  #lost = Infinity;
  #lostHere = 0;

  constructor(
    private readonly command: CommandOf<"observe">,
    private readonly context: QueryContext,
  ) {
    this.#read = eventReader(command, () => this.#ports);
  }

  /** Reads the objects. @throws {FatalError} if they cannot be read, or if the Service does not exist */
  async refresh(): Promise<void> {
    const { service, namespace, timeout } = this.command;
    const known = await readKnown({ ...this.context, timeout });
    const target = service && serviceNamed(service, known);
    if (target) await this.#readPods(objectKey(target));
    const ports = target
      ? askedPorts(target, known)
      : [...known.desired.services].filter(([key]) =>
        namespace === "" || splitKey(key).namespace === namespace
      ).flatMap(([, ports]) => ports);
    this.#ports = portsByFrontend(ports, known.ownAddresses);
  }

  async add(line: string): Promise<void> {
    const event = this.#read(line);
    if (!event) return;
    void this.#readPods(serviceOf(event.service));
    this.#waiting.push(() => {
      const named = { ...event, pod: this.#podOf(event) };
      return this.#line(named, textOf(named));
    });
    if (this.#waiting.length >= CHUNK) await this.#flush();
  }

  /** Prints lines, counts lost events and reads the objects again, until the abort. */
  async runPeriodically(signal: AbortSignal): Promise<void> {
    const { clock, complain } = this.context.runtime;
    const repeat = async (pause: number, work: () => Promise<void>) => {
      for (;;) {
        await clock.sleep(pause, signal);
        if (signal.aborted) return;
        await work();
      }
    };
    const outdated = (error: unknown) =>
      complain(`signpost: the names may be outdated: ${errorText(error)}`);
    await Promise.all([
      repeat(DELAY, () => this.#flush()),
      repeat(LOST_PERIOD, () => this.countLost()),
      repeat(REFRESH, () => this.refresh().catch(outdated)),
    ]);
    await this.#flush();
  }

  /** Returns the name of an endpoint's pod; `""`: not known yet. */
  #podOf({ service, endpoint }: Pick<ObservedEvent, "service" | "endpoint">): string {
    return this.#pods.get(`${serviceOf(service)} ${splitHostPort(endpoint).hostname}`) ?? "";
  }

  /** Reads the names of a Service's pods if they are old, one Service at a time. */
  async #readPods(service: string): Promise<void> {
    const { clock } = this.context.runtime;
    const last = this.#asked.get(service) ?? -Infinity;
    if (this.#isAsking || clock.monotonic() < last + REFRESH_PODS) return;
    this.#isAsking = true;
    const { namespace, name } = splitKey(service);
    const asking = { ...this.context, client: undefined };
    const pods = await readPods({ namespace, service: name }, asking);
    for (const { address, name } of pods ?? []) this.#pods.set(`${service} ${address}`, name);
    this.#asked.set(service, clock.monotonic());
    this.#isAsking = false;
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
    const all = this.#lostHere += count;
    const text = `… ${grouped(count)} events were lost, ${grouped(all)} in all: ` +
      "the kernel reports more connections than signpost can read";
    this.#waiting.push(() => this.#line({ event: "lost", count, all }, text));
  }

  #line(value: object, text: string): string {
    return `${this.command.output === "json" ? jsonText(value, 0) : plain(text)}\n`;
  }

  async #flush(): Promise<void> {
    const lines = this.#waiting.splice(0);
    if (lines.length > 0) {
      await this.context.runtime.print(lines.map((line) => line()).join(""));
    }
  }
}

function textOf({ time, event, client, service, frontend, ...rest }: ObservedEvent): string {
  const { endpoint, pod, protocol, seconds } = rest;
  const after = seconds === null ? "" : ` after ${formatDuration(seconds)}`;
  const word = event === "no-answer" ? "NO ANSWER" : event.toUpperCase();
  return `${time.slice(11, 23)} ${`${word}${after}`.padEnd(22)} ${client} → ${service} ` +
    `(${frontend}/${protocol}) → ${endpoint}${pod && ` (${pod})`}`;
}

/** Prints first packets and ends. `-b`: bytes for unread events, which take some KiB each. */
const EVENTS = [
  ...["conntrack", "-E", "-e", "NEW,DESTROY", "-o", "timestamp,id", "-b", "16777216"],
] as const;

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
  ports: () => ReadonlyMap<string, DesiredServicePort>,
): (line: string) => Omit<ObservedEvent, "pod"> | undefined {
  /** The start of each connection in seconds, by the kernel's number. */
  const startTimes = new BoundedMap<string, number>(MOST);
  return (line) => {
    const entry = readEntryTo(ports(), line);
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
