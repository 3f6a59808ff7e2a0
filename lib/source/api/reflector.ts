/**
 * Lists the objects of one kind, then watches them through any failure of the API server.
 *
 * A failure never removes an object. Delivered objects stay until a newer state arrives.
 *
 * @module
 */
import { Backoff, type BackoffLimits } from "../../model/values/timing.ts";
import type { Decoder, EventSink, Kind } from "../../model/cluster/objects.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import type { ApiClient } from "./api_client.ts";
import { StatusError, WatchError } from "./failure.ts";
import { type WatchObserver, WatchReport } from "./report.ts";
import { type Resource, resourceOf, selecting, withoutFieldSelector } from "./resources.ts";
import { listPages, MAX_OBJECTS, Snapshot } from "./list.ts";
import { errorText } from "../../model/values/text.ts";
import {
  fallbackFrom,
  followStream,
  mayWorkInJson,
  refusesFieldSelector,
  type StreamOptions,
} from "./watch_stream.ts";

/** The limits of a watch; times are milliseconds. */
export interface WatchLimits {
  /** The longest silence of a watch. The API server sends a bookmark about every minute. */
  readonly stall: number;
  /**
   * The longest time without a new object before the end of a streaming list. The API server waits
   * at most 3 seconds for its cache.
   */
  readonly initialQuiet: number;
  /** The delay of a retry if the server does not know the resource. */
  readonly absent: number;
  readonly backoff: BackoffLimits;
  /** Objects in a page of a list, as in client-go. */
  readonly pageSize: number;
  /** The most objects to keep. */
  readonly maxObjects: number;
}

/** The default limits. */
export const DEFAULT_LIMITS: WatchLimits = {
  stall: 180_000,
  initialQuiet: 10_000,
  absent: 600_000,
  backoff: { first: 250, longest: 30_000 },
  pageSize: 500,
  maxObjects: MAX_OBJECTS,
};

/** The options of a reflector. */
interface ReflectorOptions {
  readonly client: ApiClient;
  /** The name of the Node to watch. */
  readonly nodeName: string;
  readonly decode: Decoder;
  /** True if watches ask for protobuf. Then `decode` gets only the fields of its tables. */
  readonly protobuf: boolean;
  readonly sink: EventSink;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer?: WatchObserver;
  /** Ends the watch. */
  readonly signal: AbortSignal;
  readonly limits?: Partial<WatchLimits>;
  /** Returns 0 to 1; `Math.random` by default. */
  readonly random?: () => number;
}

/** Failures in a row, without progress, before the resource version is dropped. */
const FAILURES_BEFORE_RELIST = 5;
/** Milliseconds after which a stream without events counts as a success. */
const GOOD_STREAM = 30_000;

/** The longest delay in milliseconds that a server can ask for. */
const LONGEST_RETRY_AFTER = 120_000;

/** Lists and watches one kind. */
class Reflector<K extends Kind> {
  readonly #collection: Resource;
  readonly #limits: WatchLimits;
  /** Delays after failures. */
  readonly #backoff: Backoff;
  /** Delays between lists after expired resource versions. */
  readonly #relists: Backoff;
  readonly #random: () => number;
  readonly #report: WatchReport;
  /** `""` if a list is due. */
  #resourceVersion = "";
  /** The monotonic time of the last list, event or bookmark. */
  #progressed = -Infinity;
  /** Keys of the delivered objects. */
  #known = new Set<string>();
  #streamingList = true;
  /** True if requests have a field selector; else objects are selected here. */
  #selectsFields = true;
  /** The monotonic time of the last list after an expired resource version. */
  #relisted = -Infinity;
  #protobuf: boolean;

  constructor(private readonly kind: K, private readonly options: ReflectorOptions) {
    this.#collection = resourceOf(kind, options.nodeName);
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#random = options.random ?? Math.random;
    this.#protobuf = options.protobuf;
    this.#backoff = new Backoff(this.#limits.backoff, this.#random);
    this.#relists = new Backoff(this.#limits.backoff, this.#random);
    this.#report = new WatchReport(kind, {
      clock: options.clock,
      logger: options.logger,
      observer: options.observer,
    });
  }

  /** Lists and watches until the signal aborts. Never rejects. */
  async run(): Promise<void> {
    const { signal } = this.options;
    while (!signal.aborted) {
      try {
        await this.#listAndWatch();
      } catch (error) {
        if (!signal.aborted) await this.#recover(error);
      }
    }
    this.#report.state("stopped");
  }

  async #listAndWatch(): Promise<void> {
    if (this.#resourceVersion === "" && this.#streamingList) {
      try {
        return await this.#watch({ initial: true });
      } catch (error) {
        const fallback = this.#resourceVersion === "" ? fallbackFrom(error) : undefined;
        if (fallback === undefined || this.options.signal.aborted) throw error;
        if (this.#selectsFields && refusesFieldSelector(error)) throw error;
        this.#streamingList = fallback !== "for good";
        this.options.logger.debug(
          1,
          `no streaming list of ${this.kind} objects, listing in pages`,
          {
            error: errorText(error),
          },
        );
      }
    }
    if (this.#resourceVersion === "") await this.#list();
    await this.#watch({ initial: false });
  }

  async #list(): Promise<void> {
    this.#report.state("listing");
    const { client, signal } = this.options;
    const { snapshot, resourceVersion } = await listPages(this.kind, {
      client,
      signal,
      ...this.#selection(),
      pageSize: this.#limits.pageSize,
      maxObjects: this.#limits.maxObjects,
    });
    if (signal.aborted) return;
    this.options.sink(snapshot.toEvent());
    this.#listed(snapshot, resourceVersion);
  }

  #listed(snapshot: Snapshot<K>, resourceVersion: string): void {
    this.#known = snapshot.keys;
    this.#progressed = this.options.clock.monotonic();
    this.#resourceVersion = resourceVersion;
    this.#report.listed(resourceVersion, snapshot.size);
  }

  /** Follows one stream to its end. */
  async #watch({ initial }: { readonly initial: boolean }): Promise<void> {
    const { clock } = this.options;
    this.#report.state(initial ? "listing" : "connecting");
    const start = clock.monotonic();
    let isOpen = false;
    let progress = false;
    try {
      await followStream(this.kind, {
        ...this.#streamOptions(initial),
        onListed: (snapshot, resourceVersion) => this.#listed(snapshot, resourceVersion),
        onProgress: (resourceVersion) => {
          progress = true;
          this.#progressed = clock.monotonic();
          this.#resourceVersion = resourceVersion;
          this.#backoff.reset();
          this.#report.alive(resourceVersion);
        },
        onOpen: () => {
          isOpen = true;
          if (!initial) this.#report.state("watching");
        },
      });
    } catch (error) {
      // The abort ends the body at any place.
      if (this.options.signal.aborted) return;
      if (this.#protobuf && mayWorkInJson(error)) this.#leaveProtobuf(error);
      throw error;
    } finally {
      const end = clock.monotonic();
      if (end - start >= GOOD_STREAM) this.#backoff.reset();
      // A restored server with a lower version sends nothing until it has passed this one.
      const isSilent = isOpen && !progress && end - this.#progressed >= this.#limits.stall;
      if (isSilent) this.#resourceVersion = "";
    }
    if (this.options.signal.aborted) return;
    if (!progress && clock.monotonic() - start < GOOD_STREAM) {
      throw new WatchError("dropped", "the watch was closed by the server at once");
    }
    this.#report.state("connecting");
    await clock.sleep(this.#limits.backoff.first * this.#random(), this.options.signal);
  }

  #streamOptions(initial: boolean): Omit<StreamOptions<K>, "onListed" | "onProgress" | "onOpen"> {
    const { client, sink, signal, clock } = this.options;
    return {
      client,
      sink,
      signal,
      clock,
      ...this.#selection(),
      protobuf: this.#protobuf,
      known: () => this.#known,
      maxObjects: this.#limits.maxObjects,
      resourceVersion: initial ? undefined : this.#resourceVersion,
      timeoutSeconds: 300 + Math.floor(300 * this.#random()),
      stall: this.#limits.stall,
      initialQuiet: this.#limits.initialQuiet,
    };
  }

  /** Returns the selectors of requests, and the decoder that applies the selectors left out. */
  #selection(): { readonly resource: Resource; readonly decode: Decoder } {
    const { decode } = this.options;
    if (this.#selectsFields) return { resource: this.#collection, decode };
    return {
      resource: withoutFieldSelector(this.#collection),
      decode: selecting(this.#collection, decode),
    };
  }

  /** Falls back to JSON, which all servers and proxies in front of them know. */
  #leaveProtobuf(error: unknown): void {
    this.#protobuf = false;
    this.options.logger.info(`watching ${this.kind} objects in JSON from here on`, {
      error: errorText(error),
    });
  }

  async #recover(cause: unknown): Promise<void> {
    const { clock, signal } = this.options;
    const error = cause instanceof WatchError
      ? cause
      : new WatchError("garbage", `the watch failed: ${errorText(cause)}`, { cause });
    if (this.#mustList(error)) this.#resourceVersion = "";
    if (this.#changeSelection(error)) return;
    this.#deliverNothing(error);
    if (this.#collection.optional && error.reason === "not-found") {
      this.#backoff.reset();
      this.#report.state("absent");
      return await clock.sleep(this.#limits.absent, signal);
    }
    const isGone = error.reason === "gone" || error.reason === "reverted";
    if (isGone) this.#forgetOutage();
    const backoff = isGone ? this.#relists : this.#backoff;
    const isFirst = backoff.failures === 0;
    const wish = error instanceof StatusError ? error.retryAfter ?? 0 : 0;
    const delay = backoff.next(Math.min(wish, LONGEST_RETRY_AFTER));
    const isRoutine = error.reason === "dropped" || error.reason === "gone";
    this.#report.failed(error, { state: "backoff", delay, loud: !(isFirst && isRoutine) });
    await clock.sleep(delay, signal);
    if (isGone) this.#relisted = clock.monotonic();
  }

  /**
   * Resets the delays of earlier failures after an expired resource version: the server works
   * again. If versions expire repeatedly, the delays grow.
   */
  #forgetOutage(): void {
    if (this.options.clock.monotonic() - this.#relisted < GOOD_STREAM) return;
    this.#relists.reset();
    this.#backoff.reset();
  }

  /**
   * Drops the field selector if the server refuses the request, and restores it if the refusal has
   * another reason.
   *
   * @returns true if an immediate retry is useful
   */
  #changeSelection(error: WatchError): boolean {
    if (this.#collection.selectors.fieldSelector === undefined) return false;
    if (this.#selectsFields) {
      if (!(error instanceof StatusError) || error.status !== 400) return false;
      this.#selectsFields = false;
      this.options.logger.info(
        `asking for ${this.kind} objects without a field selector, and selecting them here`,
        { error: errorText(error) },
      );
      return true;
    }
    const isRefused = error instanceof StatusError && [400, 403].includes(error.status);
    if (isRefused) this.#selectsFields = true;
    return false;
  }

  /** Returns true if the resource version is of no more use. */
  #mustList(error: WatchError): boolean {
    if (error.reason === "reverted") return true;
    if (this.#backoff.failures >= FAILURES_BEFORE_RELIST && error.reason === "garbage") return true;
    if (!(error instanceof StatusError)) return false;
    const isPassing = [401, 403, 404, 408, 429].includes(error.status) || error.status >= 500;
    return !isPassing || /too large resource version/i.test(error.message);
  }

  /**
   * Delivers an empty first state if the cluster lacks an optional resource or the right to read
   * it. An earlier state stays.
   */
  #deliverNothing({ reason }: WatchError): void {
    const isDenied = reason === "not-found" || reason === "forbidden";
    if (!this.#collection.optional || !isDenied || this.#report.status.lists > 0) return;
    this.options.logger.info(`going on without ${this.kind} objects: ${reason}`);
    this.options.sink(new Snapshot(this.kind).toEvent());
    this.#report.listed("", 0);
  }
}

/** The kinds, and the options of each watch. */
interface WatchAllOptions extends ReflectorOptions {
  readonly kinds: readonly Kind[];
}

/**
 * Lists and watches every kind until the signal aborts. Never rejects: failures are retried. Each
 * kind's first event is a `replace`. It is empty if the cluster lacks the kind.
 */
export async function watchAll(options: WatchAllOptions): Promise<void> {
  await Promise.all(options.kinds.map((kind) => new Reflector(kind, options).run()));
}
