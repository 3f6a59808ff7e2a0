/** `signpost observe`: shows connections to Services as they begin and end. */
import { readSysctl } from "../backend/sysctl.ts";
import type { CommandOf } from "../config/command.ts";
import { serviceNamed } from "../explain/lookup.ts";
import { EVENTS, lostEvents, type ObservedEvent, Observer } from "../explain/observe.ts";
import { askedPorts } from "../explain/service_report.ts";
import { splitKey } from "../model/cluster/names.ts";
import { ProgramMissingError } from "../model/ports/ports.ts";
import { FatalError } from "../model/values/errors.ts";
import { errorText, grouped, plain } from "../model/values/text.ts";
import { formatDuration } from "../observe/human.ts";
import type { QueryContext } from "./context.ts";
import { readKnown } from "./objects.ts";
import { jsonText } from "./output.ts";

/** Milliseconds that a line may wait, and between two looks at lost events. */
const DELAY = 100;
const LOOK = 1_000;

/** Milliseconds, and times its duration, that a reading of the objects holds at least. */
const REFRESH = 30_000;
const TIMES_AS_LONG = 20;

/** Characters that are printed at once. */
const CHUNK = 16 * 1024;

/** Shows events until the signal aborts. @returns 0 @throws {FatalError} if objects or events cannot be read */
export async function observe(
  command: CommandOf<"observe">,
  context: QueryContext,
): Promise<number> {
  const { runtime: { runner, streamer }, signal } = context;
  const events = await readSysctl(runner, "net.netfilter.nf_conntrack_events").catch(() => "");
  if (events === "0") {
    throw new FatalError(
      "the kernel reports no connections: net.netfilter.nf_conntrack_events is 0",
    );
  }
  const view = new View(command, context);
  await view.refresh();
  const done = new AbortController();
  const either = AbortSignal.any([signal, done.signal]);
  const beside = view.runBeside(await view.subscriptions(), either);
  try {
    for await (const line of streamer.lines(EVENTS, either)) await view.add(line);
  } catch (error) {
    if (!(error instanceof ProgramMissingError)) throw error;
    throw new FatalError("observe needs the program conntrack (package conntrack-tools)");
  } finally {
    done.abort();
    await beside;
  }
  if (signal.aborted) return 0;
  throw new FatalError("conntrack -E has ended: run signpost as root");
}

/** The events of some Services, as lines. */
class View {
  readonly #observer: Observer;
  /** Lines that are not printed yet: each print costs time. */
  #pending = "";

  constructor(
    private readonly command: CommandOf<"observe">,
    private readonly context: QueryContext,
  ) {
    this.#observer = new Observer(command);
  }

  /** Reads the objects. @throws {FatalError} if they cannot be read, or if the Service does not exist */
  async refresh(): Promise<void> {
    const { service, namespace, timeout } = this.command;
    const known = await readKnown({ ...this.context, timeout });
    const ports = service
      ? askedPorts(serviceNamed(service, known), known)
      : [...known.desired.services].filter(([key]) =>
        namespace === "" || splitKey(key).namespace === namespace
      ).flatMap(([, ports]) => ports);
    this.#observer.follow(ports, known.ownAddresses);
  }

  async add(line: string): Promise<void> {
    const event = this.#observer.read(line);
    if (!event) return;
    this.#print(event, textOf);
    if (this.#pending.length >= CHUNK) await this.#flush();
  }

  /** Prints lines, counts lost events and reads the objects again. @param earlier subscriptions of other programs */
  async runBeside(earlier: ReadonlyMap<string, number>, signal: AbortSignal): Promise<void> {
    const { clock, complain } = this.context.runtime;
    let all = 0;
    let [lookAt, refreshAt] = [clock.monotonic() + LOOK, clock.monotonic() + REFRESH];
    while (!signal.aborted) {
      await clock.sleep(DELAY, signal);
      await this.#flush();
      const now = clock.monotonic();
      if (now >= lookAt) {
        const lost = (await this.subscriptions()).entries()
          .reduce((sum, [inode, lost]) => sum + (earlier.has(inode) ? 0 : lost), 0);
        if (lost > all) this.#print({ event: "lost", count: lost - all, all: lost }, lostText);
        all = Math.max(all, lost);
        lookAt = now + LOOK;
      }
      if (now >= refreshAt && !signal.aborted) {
        await this.refresh().catch((error) =>
          complain(`signpost: names may be old: ${errorText(error)}`)
        );
        refreshAt = now + Math.max(REFRESH, TIMES_AS_LONG * (clock.monotonic() - now));
      }
    }
    await this.#flush();
  }

  /** Deno lets no code read the file itself. */
  async subscriptions(): Promise<ReadonlyMap<string, number>> {
    return lostEvents((await this.context.runtime.runner.run(["cat", "/proc/net/netlink"])).stdout);
  }

  #print<T extends object>(value: T, text: (value: T) => string): void {
    const { output } = this.command;
    this.#pending += `${output === "json" ? jsonText(value, 0) : plain(text(value))}\n`;
  }

  async #flush(): Promise<void> {
    const text = this.#pending;
    this.#pending = "";
    if (text !== "") await this.context.runtime.print(text);
  }
}

function textOf({ time, event, client, service, frontend, ...rest }: ObservedEvent): string {
  const { endpoint, protocol, seconds } = rest;
  const after = seconds === null ? "" : ` after ${formatDuration(seconds)}`;
  const word = event === "no-answer" ? "NO ANSWER" : event.toUpperCase();
  return `${time.slice(11, 23)} ${`${word}${after}`.padEnd(22)} ${client} → ${service} ` +
    `(${frontend}/${protocol}) → ${endpoint}`;
}

function lostText({ count, all }: { readonly count: number; readonly all: number }): string {
  return `… ${grouped(count)} events were lost, ${
    grouped(all)
  } in all: there are more connections ` +
    "than can be read";
}
