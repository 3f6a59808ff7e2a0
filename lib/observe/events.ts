/**
 * Sends Events to the API server, as far as it lets us, and never waits for it.
 *
 * @module
 */
import { messageOf } from "../model/values/errors.ts";
import { objectKey } from "../model/cluster/names.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import { BoundedMap, ChangeFilter } from "../model/values/bounded.ts";
import { eventBody, eventPath, type EventReport } from "./event_body.ts";
import { TokenBucket, type TokenBucketOptions } from "./log/token_bucket.ts";

/** What an `EventRecorder` needs. */
export interface EventRecorderOptions {
  /**
   * Sends one POST request and gives the status of the answer; it may reject.
   *
   * @param path for example `/apis/events.k8s.io/v1/namespaces/default/events`
   * @param body the Event, a JSON value
   */
  readonly post: (path: string, body: Record<string, unknown>) => Promise<number>;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly logger: Logger;
  /** The name of this node. */
  readonly instance: string;
  /** Called for each Event that is not sent. */
  readonly dropped?: () => void;
}

/** Events of one object: some at once, then one a minute. */
const OBJECT_LIMIT = { burst: 10, refill: 60_000 } as const;
/** Events of one namespace: some at once, then one in 10 s. */
const NAMESPACE_LIMIT = { burst: 25, refill: 10_000 } as const;
/** Events of all objects, for the API server's sake. */
const TOTAL_LIMIT = { burst: 100, refill: 200 } as const;
/** Milliseconds in which an Event that was sent is not sent again, only counted. */
const REPEAT_WINDOW = 600_000;
/** Milliseconds without a further try after the API server has refused. */
const PAUSE = 300_000;
const MAXIMUM_QUEUE = 100;
const MAXIMUM_REMEMBERED = 1024;

interface Sent {
  readonly at: number;
  /** How often it was seen, the first time included. */
  count: number;
}

interface Queued {
  readonly report: EventReport;
  readonly count: number;
}

/** Queues Events and sends them one after the other. */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #total: TokenBucket;
  readonly #perNamespace = new BoundedMap<string, TokenBucket>(MAXIMUM_REMEMBERED);
  readonly #perObject = new BoundedMap<string, TokenBucket>(MAXIMUM_REMEMBERED);
  readonly #sent = new BoundedMap<string, Sent>(MAXIMUM_REMEMBERED);
  readonly #failures = new ChangeFilter();
  readonly #queue: Queued[] = [];
  #pausedUntil = -Infinity;
  #serial = 0;
  #sending: Promise<void> | undefined;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#total = new TokenBucket(options.clock.monotonic(), TOTAL_LIMIT);
  }

  /** Queues an Event; one that is over the limits, or that repeats itself, is dropped. */
  record(report: EventReport): void {
    const now = this.#options.clock.monotonic();
    const { regarding } = report;
    const object = `${regarding.kind} ${objectKey(regarding)}`;
    const key = JSON.stringify([object, report.reason, report.note]);
    const earlier = this.#sent.get(key);
    if (earlier && now - earlier.at < REPEAT_WINDOW) {
      earlier.count += 1;
      return;
    }
    if (!this.#mayPass(object, regarding.namespace ?? "", now)) return this.#options.dropped?.();
    const count = (earlier?.count ?? 0) + 1;
    this.#sent.set(key, { at: now, count });
    this.#queue.push({ report, count });
    this.#sending ??= this.#sendAll();
  }

  /** Resolves when nothing is left to send. */
  async flushed(): Promise<void> {
    await this.#sending;
  }

  #mayPass(object: string, namespace: string, now: number): boolean {
    if (now < this.#pausedUntil || this.#queue.length >= MAXIMUM_QUEUE) return false;
    const bucketOf = (
      buckets: BoundedMap<string, TokenBucket>,
      key: string,
      limit: TokenBucketOptions,
    ) => {
      const bucket = buckets.get(key) ?? new TokenBucket(now, limit);
      buckets.set(key, bucket);
      return bucket;
    };
    return bucketOf(this.#perObject, object, OBJECT_LIMIT).take(now) &&
      bucketOf(this.#perNamespace, namespace, NAMESPACE_LIMIT).take(now) && this.#total.take(now);
  }

  async #sendAll(): Promise<void> {
    for (let next = this.#queue.shift(); next; next = this.#queue.shift()) {
      if (!await this.#send(next)) this.#options.dropped?.();
    }
    this.#sending = undefined;
  }

  /** @returns whether the API server took it */
  async #send({ report, count }: Queued): Promise<boolean> {
    const { clock, instance, post } = this.#options;
    if (clock.monotonic() < this.#pausedUntil) return false;
    this.#serial = (this.#serial + 1) % 1_000_000;
    const stamp = { now: clock.now(), serial: this.#serial, instance, count };
    try {
      return this.#judge(await post(eventPath(report), eventBody(report, stamp)));
    } catch (error) {
      return this.#fail(messageOf(error));
    }
  }

  #judge(status: number): boolean {
    if (status >= 200 && status < 300) {
      this.#failures.clear("post");
      return true;
    }
    if (status === 401 || status === 403) {
      this.#pausedUntil = this.#options.clock.monotonic() + PAUSE;
      return this.#fail(
        `the API server answers ${status}: to see Events, let this node create events ` +
          "(API group events.k8s.io)",
      );
    }
    return this.#fail(`the API server answers ${status}`);
  }

  /** Lost Events are no error of the proxy: one line, until the reason changes. */
  #fail(reason: string): false {
    if (this.#failures.changed("post", reason)) {
      this.#options.logger.info("cannot send Events", { reason });
    }
    return false;
  }
}
