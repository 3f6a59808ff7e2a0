/** Lists the objects of one kind, then watches them. A failure of the API server never removes an object. */
import { Backoff } from "../../model/values/timing.ts";
import type {
  Decoder,
  EventSink,
  Kind,
  ObjectChange,
  ReplaceEvent,
} from "../../model/cluster/objects.ts";
import { PROTOBUF } from "../../model/configuration.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import type { WatchSummary } from "../../model/status.ts";
import { errorText } from "../../model/values/text.ts";
import type { ApiClient } from "./api_client.ts";
import { Outage, StatusError, WatchError } from "./failure.ts";
import { LIMITS, type WatchLimits } from "./limits.ts";
import { type Resource, resourceOf } from "../objects/tables.ts";
import { ObjectSizes } from "./object_sizes.ts";
import {
  isLower,
  parseWatchEvent,
  piecesOf,
  readListPage,
  type WatchEvent,
} from "./watch_events.ts";

/** `absent`: the server lacks the resource or the right to it; a retry follows later. */
type WatchState = "connecting" | "listing" | "watching" | "backoff" | "absent" | "stopped";

export interface WatchStatus extends Omit<WatchSummary, "lastEvent" | "failingSince"> {
  readonly state: WatchState;
  /** The wall-clock time of the first failure since the last event, milliseconds since the epoch; 0 without one. */
  readonly failingSince: number;
  /** True if the last failure was a refusal: the server answered 401 or 403. */
  readonly isRefused: boolean;
  /** The wall-clock time of the last event or bookmark, milliseconds since the epoch; 0 before the first one. */
  readonly lastEvent: number;
}

interface WatchOptions {
  readonly kinds: readonly Kind[];
  readonly client: ApiClient;
  readonly nodeName: string;
  readonly decode: Decoder;
  /** True if watches ask for protobuf. Then `decode` gets only the fields of its tables. */
  readonly protobuf: boolean;
  readonly sink: EventSink;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly watchChanged?: ((status: WatchStatus) => void) | undefined;
  readonly signal: AbortSignal;
  /**
   * Aborts when the first rules are in the kernel. Open watches then end, and resume. Connection tracking begins with
   * these rules, and a later firewall drops packets of connections that it has not seen.
   */
  readonly rulesWritten?: AbortSignal | undefined;
  readonly limits?: Partial<WatchLimits>;
  /** Returns 0 to 1; `Math.random` by default. */
  readonly random?: () => number;
}

/** Lists and watches every kind until the signal aborts. Never rejects. Each kind's first event is a `replace`. */
export async function watchAll(options: WatchOptions): Promise<void> {
  const shared: Shared = {
    outage: new Outage(options.clock, options.logger),
    served: new AbortController(),
  };
  await Promise.all(options.kinds.map((kind) => new Reflector(kind, options, shared).run()));
}

/** Milliseconds after which a stream without events counts as a success. */
const GOOD_STREAM = 30_000;

/** The longest delay that a server can ask for, in milliseconds. */
const LONGEST_RETRY_AFTER = 120_000;

/** Successive pages without a new object before the list fails. A filter can leave a few pages empty. */
const MAX_IDLE_PAGES = 10;

interface Shared {
  readonly outage: Outage;
  /** Aborts when Services were listed: the server has read its roles. */
  readonly served: AbortController;
}

/** The objects of a list by key. It has objects without rules, too. */
type Listed = Map<string, ObjectChange>;

class Reflector {
  readonly #resource: Resource;
  readonly #limits: WatchLimits;
  readonly #backoff: Backoff;
  readonly #random: () => number;
  #status: WatchStatus;
  /** The version of the last delivered event; `""` if a list is due. */
  #resourceVersion = "";
  /** The monotonic time of the last list, event or bookmark. */
  #progressed = -Infinity;
  /** The sizes of the delivered objects. */
  readonly #sizes: ObjectSizes;
  #streamingList = true;
  /** Collects the initial state of a stream until its end. */
  #snapshot: Listed | undefined;
  /** True if the server has accepted the present watch. */
  #isOpen = false;
  /** True if the present stream brought a list, an event or a bookmark. */
  #hasProgress = false;
  /** The monotonic time at which a resource version had last expired. */
  #expired = -Infinity;

  constructor(
    private readonly kind: Kind,
    private readonly options: WatchOptions,
    private readonly shared: Shared,
  ) {
    this.#resource = resourceOf(kind, options.nodeName);
    this.#limits = { ...LIMITS, ...options.limits };
    this.#sizes = new ObjectSizes(this.#limits.maxBytes);
    this.#random = options.random ?? Math.random;
    this.#backoff = new Backoff(this.#limits.backoff, this.#random);
    const nothing = {
      resourceVersion: "",
      lastEvent: 0,
      lists: 0,
      lastError: "",
      failingSince: 0,
      isRefused: false,
    };
    this.#status = { kind, state: "connecting", ...nothing };
  }

  async run(): Promise<void> {
    const { signal } = this.options;
    while (!signal.aborted) {
      try {
        await this.#listAndWatch();
      } catch (error) {
        if (!signal.aborted) await this.#recover(error);
      }
    }
    this.#setState("stopped");
  }

  async #listAndWatch(): Promise<void> {
    if (this.#resourceVersion === "" && this.#streamingList) {
      try {
        return await this.#watch(true);
      } catch (error) {
        if (this.#resourceVersion !== "" || !mayWorkInPages(error)) throw error;
        // A server that refuses these parameters is not asked again.
        this.#streamingList &&= error.reason !== "status";
        const message = `cannot stream the list of ${this.kind} objects, listing in pages`;
        this.options.logger.debug(1, message, { error: error.message });
      }
    }
    if (this.#resourceVersion === "") await this.#list();
    await this.#watch();
  }

  /**
   * Lists in pages. After an expired continue token (410) it lists all in one page, as client-go does. A page that is
   * too large, or late, is asked for again with fewer objects.
   */
  async #list(pageSize = this.#limits.pageSize): Promise<void> {
    this.#setState("listing");
    const { client, clock, signal } = this.options;
    const turns = new Turns(clock);
    const snapshot: Listed = new Map();
    this.#sizes.beginList();
    let idlePages = 0;
    let token = "";
    for (let size = pageSize;;) {
      const query = {
        ...this.#resource.selectors,
        ...(size > 0 && { limit: String(size) }),
        ...(token !== "" && { continue: token }),
      };
      const answer = await client.json(this.#resource.path, { query, signal }).catch((error) => {
        const reason = error instanceof WatchError ? error.reason : "";
        // A server ends an answer after 60 s.
        const mayFit = size > 1 && ["too-large", "late", "dropped"].includes(reason);
        if (token !== "" && reason === "gone" || mayFit) return error as WatchError;
        throw error;
      });
      if (answer instanceof WatchError) {
        if (answer.reason === "gone") return await this.#list(0);
        size = Math.ceil(size / 8);
        continue;
      }
      const { items, next, resourceVersion } = readListPage(answer);
      const before = snapshot.size;
      for (const item of items) {
        this.#collect(this.#decode({ type: "changed", object: item }), snapshot);
        await turns.yieldIfDue();
      }
      if (signal.aborted) return;
      if (next === "") return this.#listed(snapshot, resourceVersion);
      idlePages = snapshot.size === before ? idlePages + 1 : 0;
      if (next === token || idlePages >= MAX_IDLE_PAGES) {
        const why = next === token ? "its continue token repeats" : `${idlePages} pages repeat it`;
        throw new WatchError("garbage", `the list does not end: ${why}`);
      }
      token = next;
    }
  }

  #collect(change: ObjectChange, snapshot: Listed): void {
    this.#checkCount(change.key, snapshot);
    snapshot.set(change.key, this.#sizes.list(change));
  }

  #listed(changes: Listed, resourceVersion: string): void {
    this.#sizes.endList();
    this.#deliver(changes, resourceVersion);
    this.#progressed = this.options.clock.monotonic();
    this.#resourceVersion = resourceVersion;
  }

  #deliver(changes: Listed, resourceVersion: string): void {
    const { kind, options: { logger, sink } } = this;
    sink({ type: "replace", kind, changes } as ReplaceEvent);
    this.#update({ resourceVersion, lists: this.#status.lists + 1 });
    if (kind === "Service") this.shared.served.abort();
    logger.debug(2, `listed ${kind} objects`, { objects: this.#sizes.size, resourceVersion });
  }

  /** Follows one stream to its end. @param isList true if the stream begins with the initial state */
  async #watch(isList = false): Promise<void> {
    const { clock, signal } = this.options;
    if (isList) this.#setState("listing");
    else if (this.#status.state !== "watching") this.#setState("connecting");
    const start = clock.monotonic();
    const hadRules = this.#hasRules;
    // A variable would keep the list in memory until the stream ends.
    this.#snapshot = isList ? new Map() : undefined;
    if (isList) this.#sizes.beginList();
    this.#hasProgress = false;
    this.#isOpen = false;
    try {
      await this.#follow();
    } catch (error) {
      // The abort may end the body at any byte.
      if (signal.aborted || this.#hasRules !== hadRules) return;
      // A new connection shows if only this one is dead.
      if (
        this.#isOpen && !this.#snapshot && error instanceof WatchError && error.reason === "stalled"
      ) return;
      throw error;
    } finally {
      const end = clock.monotonic();
      if (end - start >= GOOD_STREAM) this.#backoff.reset();
      // A restored server with a lower version is silent until it has passed this version.
      const isSilent = this.#status.state === "watching" && !this.#hasProgress &&
        end - this.#progressed >= this.#limits.stall;
      if (isSilent || this.#sizes.mayTakeMore) this.#resourceVersion = "";
    }
    const isGood = clock.monotonic() - start >= GOOD_STREAM || this.#hasRules !== hadRules;
    if (signal.aborted || isGood) return;
    if (!this.#hasProgress) {
      throw new WatchError("dropped", "the API server closed the watch at once");
    }
    this.#setState("connecting");
    await clock.sleep(this.#limits.backoff.first * this.#random(), signal);
  }

  async #follow(): Promise<void> {
    const { client, protobuf, signal, clock, rulesWritten } = this.options;
    const answer = await client.open(this.#resource.path, {
      query: this.#query(),
      ...(protobuf && { accept: `${PROTOBUF}, application/json` }),
      signal,
      silence: this.#limits.silence,
    });
    this.#isOpen = true;
    if (!this.#snapshot) this.#setState("watching");
    const turns = new Turns(clock);
    const over = new AbortController();
    if (this.#snapshot) void this.#endIfQuiet(this.#snapshot, answer, over.signal);
    const reopen = () => this.#snapshot || answer.close();
    rulesWritten?.addEventListener("abort", reopen, { signal: over.signal });
    try {
      for await (const pieces of piecesOf(answer)) {
        // A list is one long work. After the list, each chunk begins a turn of its own.
        const turn = this.#snapshot ? turns : new Turns(clock);
        for (const piece of pieces) {
          if (this.#handle(piece)) answer.renew();
          await turn.yieldIfDue();
          if (signal.aborted) return;
        }
      }
      if (this.#snapshot) {
        throw new WatchError("dropped", "the stream ended within the initial list");
      }
    } finally {
      over.abort();
      answer.close();
    }
  }

  get #hasRules(): boolean {
    return this.options.rulesWritten?.aborted === true;
  }

  /** Ends a streaming list without new objects. Some proxies before API servers do not mark its end. */
  async #endIfQuiet(
    snapshot: Listed,
    stream: { close(): void },
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, logger } = this.options;
    for (let seen = -1; seen < snapshot.size;) {
      seen = snapshot.size;
      await clock.sleep(this.#limits.quiet, signal);
      if (signal.aborted || this.#snapshot !== snapshot) return;
    }
    logger.debug(1, `the streaming list of ${this.kind} objects did not end, listing in pages`);
    this.#streamingList = false;
    stream.close();
  }

  #query(): Record<string, string> {
    return {
      ...this.#resource.selectors,
      watch: "true",
      allowWatchBookmarks: "true",
      ...this.#snapshot
        ? {
          sendInitialEvents: "true",
          resourceVersionMatch: "NotOlderThan",
          timeoutSeconds: String(300 + Math.floor(300 * this.#random())),
        }
        : {
          resourceVersion: this.#resourceVersion,
          timeoutSeconds: String(Math.floor(this.#limits.watch / 1000 + 4 * this.#random())),
        },
    };
  }

  /** Handles a line or frame. @returns true if it is an event */
  #handle(piece: string | Uint8Array): boolean {
    const event = parseWatchEvent(piece);
    if (event === undefined) return false;
    if (this.#snapshot && !this.#collectEvent(event, this.#snapshot)) return true;
    if (!this.#snapshot) this.#deliverEvent(event);
    this.#hasProgress = true;
    this.#progressed = this.options.clock.monotonic();
    this.#succeeded();
    this.#reportEvent();
    return true;
  }

  /** Collects an event of the initial state. @returns true at its end */
  #collectEvent(event: WatchEvent, snapshot: Listed): boolean {
    if (event.type === "bookmark") {
      if (!event.initialEventsEnd) return false;
      this.#snapshot = undefined;
      this.#listed(snapshot, event.resourceVersion);
      return true;
    }
    this.#collect(this.#decode(event), snapshot);
    return false;
  }

  /** Delivers an event after the initial state. */
  #deliverEvent(event: WatchEvent): void {
    if (isLower(event.resourceVersion, this.#resourceVersion)) {
      const step = `from ${this.#resourceVersion} to ${event.resourceVersion}`;
      throw new WatchError("reverted", `the resource version went back ${step}`);
    }
    if (event.type !== "bookmark") {
      const change = this.#decode(event);
      if (change.type !== "delete") {
        this.#checkCount(change.key, this.#sizes);
        this.options.sink(this.#sizes.put(change));
        // An object without rules that was never delivered, such as a headless Service, does not count as a change.
      } else if (this.#sizes.remove(change.key)) this.options.sink(change);
    }
    this.#resourceVersion = event.resourceVersion;
  }

  #decode({ type, object }: { readonly type: string; readonly object: unknown }): ObjectChange {
    const { kind } = this;
    const excess = (key: string, size: number) => this.#sizes.expectedExcess({ kind, key }, size);
    const change = this.options.decode(kind, object, excess);
    return type === "deleted" ? { type: "delete", kind, key: change.key } : change;
  }

  /** @throws {WatchError} if a new key exceeds the limit */
  #checkCount(key: string, keys: Pick<ReadonlySetLike<string>, "has" | "size">): void {
    const { maxObjects } = this.#limits;
    if (keys.size < maxObjects || keys.has(key)) return;
    const message = `the API server lists more than ${maxObjects} ${this.kind} objects, more ` +
      "than any cluster has: is it the right server?";
    throw new WatchError("too-many", message);
  }

  async #recover(cause: unknown): Promise<void> {
    const { kind, options: { clock, signal } } = this;
    const error = cause instanceof WatchError
      ? cause
      : new WatchError("garbage", `the watch failed: ${errorText(cause)}`, { cause });
    if (this.#mustList(error)) this.#resourceVersion = "";
    const { outage, served } = this.shared;
    if (this.#isAbsent(error)) {
      outage.ended(kind);
      this.#deliverNothing(error);
      this.#backoff.reset();
      const isRefused = error.reason === "forbidden";
      const lastError = isRefused ? error.message : "";
      this.#update({ state: "absent", lastError, isRefused, failingSince: 0 });
      const wake = served.signal.aborted ? signal : AbortSignal.any([signal, served.signal]);
      return await clock.sleep(this.#limits.absent, wake);
    }
    const isGone = error.reason === "gone" || error.reason === "reverted";
    if (isGone) this.#succeeded();
    const isFirst = this.#backoff.failures === 0;
    const retryAfter = error instanceof StatusError ? error.retryAfter : 0;
    const delay = this.#backoff.next(Math.min(retryAfter, LONGEST_RETRY_AFTER));
    const isRoutine = isFirst && (error.reason === "dropped" || error.reason === "gone");
    this.#update({
      state: "backoff",
      lastError: error.message,
      isRefused: error.reason === "forbidden" || error.reason === "unauthorized",
      // A server that reports an expired version works.
      failingSince: isGone ? 0 : this.#status.failingSince || clock.now(),
    });
    outage.failed(kind, { error, isRoutine, retryInMs: Math.round(delay) });
    await clock.sleep(delay, signal);
    if (isGone) this.#expired = clock.monotonic();
  }

  /** Resets the delays, because the server works. They grow while resource versions expire again and again. */
  #succeeded(): void {
    if (this.options.clock.monotonic() - this.#expired >= GOOD_STREAM) this.#backoff.reset();
  }

  /** Returns true if the cluster lacks an optional resource, or never gave the right to read it. */
  #isAbsent({ reason }: WatchError): boolean {
    const wasRead = this.#status.resourceVersion !== "";
    return this.#resource.optional === true &&
      (reason === "not-found" ||
        reason === "forbidden" && !wasRead && !this.shared.outage.refusesOtherKinds(this.kind));
  }

  /**
   * Returns true if the watch cannot resume. While a server is away, etcd may be restored to a lower version. Later
   * objects then get the same versions again, and the server accepts ours without an error.
   */
  #mustList({ reason }: WatchError): boolean {
    if (reason === "throttled") return false;
    return !this.#isOpen || reason !== "dropped" && reason !== "stalled";
  }

  /** Delivers an empty first state; an earlier state stays. */
  #deliverNothing({ reason }: WatchError): void {
    if (this.#status.lists > 0) return;
    // A finding reports a refusal.
    if (reason !== "forbidden") {
      this.options.logger.info(`continuing without ${this.kind} objects: ${reason}`);
    }
    this.#deliver(new Map(), "");
  }

  #reportEvent(): void {
    this.shared.outage.ended(this.kind);
    this.#update({
      state: "watching",
      resourceVersion: this.#resourceVersion,
      lastEvent: this.options.clock.now(),
      lastError: "",
      failingSince: 0,
      isRefused: false,
    });
  }

  #setState(state: WatchState): void {
    if (state !== this.#status.state) this.#update({ state });
  }

  #update(change: Partial<WatchStatus>): void {
    this.#status = { ...this.#status, ...change };
    this.options.watchChanged?.(this.#status);
  }
}

/** Returns true if a paged list may work after this failure of a streaming list. */
function mayWorkInPages(error: unknown): error is WatchError {
  if (error instanceof StatusError) {
    // 500: its etcd does not report the progress of watches.
    return [400, 403, 405, 406, 415, 422, 500, 501].includes(error.status);
  }
  return error instanceof WatchError && ["garbage", "dropped", "too-large"].includes(error.reason);
}
