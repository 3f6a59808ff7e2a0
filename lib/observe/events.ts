/**
 * Sends Events to the API server, as far as it lets us, and never waits for it.
 *
 * @module
 */
import { messageOf } from "../model/values/errors.ts";
import { objectKey } from "../model/cluster/names.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import { BoundedMap, ChangeFilter } from "../model/values/bounded.ts";
import { sanitizeText } from "./redact.ts";
import { plain } from "../model/values/text.ts";
import { VERSION } from "../model/version.ts";

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
  /** The number of times, the first one included. */
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

/** Size and speed of a bucket. */
export interface TokenBucketOptions {
  /** Tokens in a full bucket; it starts full. */
  readonly burst: number;
  /** Milliseconds in which one token comes back. */
  readonly refill: number;
}

/** A token bucket; the caller tells the time. */
export class TokenBucket {
  readonly #options: TokenBucketOptions;
  #tokens: number;
  #countedAt: number;

  /** @param now monotonic milliseconds */
  constructor(now: number, options: TokenBucketOptions) {
    this.#options = options;
    this.#tokens = options.burst;
    this.#countedAt = now;
  }

  /**
   * Takes a token.
   *
   * @param now monotonic milliseconds
   * @returns whether there was one
   */
  take(now: number): boolean {
    const { burst, refill } = this.#options;
    this.#tokens = Math.min(burst, this.#tokens + (now - this.#countedAt) / refill);
    this.#countedAt = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

/** One Event, before it is sent. */
export interface EventReport {
  readonly regarding: {
    readonly kind: "Service" | "Node";
    /** `undefined` for a Node. */
    readonly namespace?: string;
    readonly name: string;
    /** `""` if unknown. */
    readonly uid: string;
  };
  readonly type: "Normal" | "Warning";
  /** The reason: one CamelCase word, for example `FailedToStartServiceHealthcheck`. */
  readonly reason: string;
  /** The action: one CamelCase word, for example `Listen`. */
  readonly action: string;
  /** A sentence for people; at most 1,024 bytes are kept. */
  readonly note: string;
}

/** When and by whom an Event is sent. */
export interface EventStamp {
  /** Wall-clock time, milliseconds since the epoch. */
  readonly now: number;
  /** Makes the names of Events of one millisecond differ; below 1,000,000. */
  readonly serial: number;
  /** This node. */
  readonly instance: string;
  /** The number of times since the first one was sent, this one included; 1: no series. */
  readonly count: number;
}

/** The API server refuses longer notes. */
const MAXIMUM_NOTE_BYTES = 1024;
/** Leaves room for the suffix in a name of 253 characters. */
const MAXIMUM_NAME_LENGTH = 230;
const MAXIMUM_INSTANCE_LENGTH = 128;

/** Returns the path to create an Event at. Events about Nodes live in `default`. */
export function eventPath({ regarding }: EventReport): string {
  const namespace = encodeURIComponent(regarding.namespace ?? "default");
  return `/apis/events.k8s.io/v1/namespaces/${namespace}/events`;
}

/**
 * The Event as JSON value.
 *
 * @param report what happened
 * @param stamp when, and by whom it is told
 */
export function eventBody(report: EventReport, stamp: EventStamp): Record<string, unknown> {
  const { regarding, type, reason, action, note } = report;
  const time = microTime(stamp.now);
  const base = regarding.name.slice(0, MAXIMUM_NAME_LENGTH).replace(/[^a-z0-9]+$/, "");
  const suffix = (BigInt(stamp.now) * 1_000_000n + BigInt(stamp.serial)).toString(16);
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { name: `${base}.${suffix}`, namespace: regarding.namespace ?? "default" },
    eventTime: time,
    reportingController: "signpost",
    reportingInstance: `signpost-${stamp.instance}`.slice(0, MAXIMUM_INSTANCE_LENGTH),
    action,
    reason,
    type,
    regarding: {
      apiVersion: "v1",
      kind: regarding.kind,
      name: regarding.name,
      ...(regarding.namespace !== undefined && { namespace: regarding.namespace }),
      ...(regarding.uid !== "" && { uid: regarding.uid }),
    },
    note: cutToBytes(plain(sanitizeText(note)), MAXIMUM_NOTE_BYTES),
    ...(stamp.count > 1 && { series: { count: stamp.count, lastObservedTime: time } }),
  };
}

/** meta/v1 `MicroTime` wants six digits. */
function microTime(milliseconds: number): string {
  return new Date(milliseconds).toISOString().replace("Z", "000Z");
}

function cutToBytes(text: string, bytes: number): string {
  const buffer = new Uint8Array(bytes);
  const { read, written } = new TextEncoder().encodeInto(text, buffer);
  return read === text.length ? text : new TextDecoder().decode(buffer.subarray(0, written));
}

/** Makes an Event about a Node. */
function nodeEvent(
  nodeName: string,
  said: Pick<EventReport, "type" | "reason" | "note">,
): EventReport {
  // kubelet and kube-proxy put the name where the UID belongs, and `kubectl describe node` looks for it.
  const regarding = { kind: "Node", name: nodeName, uid: nodeName } as const;
  return { regarding, action: "StartKubeProxy", ...said };
}

/** Once for each start, when the first full state is in the kernel. */
export function startingEvent(nodeName: string, mode: string): EventReport {
  return nodeEvent(nodeName, {
    type: "Normal",
    reason: "Starting",
    note: `signpost ${VERSION} in ${mode} mode`,
  });
}

/** By server, kube-proxy's word for that it cannot listen. */
const REASONS = {
  healthz: "FailedToStartProxierHealthcheck",
  metrics: "FailedToStartMetricServer",
} as const;

/** A server that cannot listen. */
export function serverFailedEvent(
  nodeName: string,
  { server, error }: { readonly server: keyof typeof REASONS; readonly error: string },
): EventReport {
  return nodeEvent(nodeName, { type: "Warning", reason: REASONS[server], note: error });
}
