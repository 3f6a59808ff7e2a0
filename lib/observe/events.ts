/** Sends Events to the API server if it allows that. Syncs never wait for it. */
import { messageOf } from "../model/values/errors.ts";
import { objectKey } from "../model/cluster/names.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import { BoundedMap } from "../model/values/bounded.ts";
import { sanitizeText } from "./log.ts";
import { plain } from "../model/values/text.ts";

interface EventRecorderOptions {
  /** Sends one POST request, and returns the status of the answer. It may reject. */
  readonly post: (path: string, body: Record<string, unknown>) => Promise<number>;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly logger: Logger;
  readonly instance: string;
  readonly dropped?: () => void;
}

/** Milliseconds in which a repeated Event is not sent, only counted. */
const REPEAT_WINDOW = 600_000;
/** Milliseconds without another try after the API server has refused an Event. */
const PAUSE = 300_000;
const MAXIMUM_QUEUE = 100;
const MAXIMUM_REMEMBERED = 1024;
/** The API server refuses longer notes. */
const MAXIMUM_NOTE_BYTES = 1024;
/** Leaves room for the suffix in a name of 253 characters. */
const MAXIMUM_NAME_LENGTH = 230;
const MAXIMUM_INSTANCE_LENGTH = 128;

/** Limits Events with the same key: a burst at once, then one in each interval. */
class Limit {
  /** By key, the number of Events that are allowed now, as of a monotonic time. */
  readonly #allowed = new BoundedMap<string, { readonly count: number; readonly at: number }>(
    MAXIMUM_REMEMBERED,
  );

  /** @param interval milliseconds */
  constructor(private readonly burst: number, private readonly interval: number) {}

  /** Counts an Event. @returns true if it is allowed */
  take(key: string, now: number): boolean {
    const { count, at } = this.#allowed.get(key) ?? { count: this.burst, at: now };
    const allowed = Math.min(this.burst, count + (now - at) / this.interval);
    this.#allowed.set(key, { count: allowed < 1 ? allowed : allowed - 1, at: now });
    return allowed >= 1;
  }
}

/** Queues Events, and sends one at a time. */
export class EventRecorder {
  readonly #objects = new Limit(10, 60_000);
  readonly #namespaces = new Limit(25, 10_000);
  readonly #all = new Limit(100, 200);
  /** By object, reason and note: the time when an Event was sent, and its number of occurrences. */
  readonly #sent = new BoundedMap<string, { readonly at: number; count: number }>(
    MAXIMUM_REMEMBERED,
  );
  /** The last failure, which was logged. */
  #failure: string | undefined;
  readonly #queue: { readonly report: EventReport; readonly count: number }[] = [];
  #pausedUntil = -Infinity;
  #serial = 0;
  #sending: Promise<void> | undefined;

  constructor(private readonly options: EventRecorderOptions) {}

  /** Queues an Event. It drops repeated Events, and Events over the limits. */
  record(report: EventReport): void {
    const now = this.options.clock.monotonic();
    const { regarding: { kind, namespace = "", name } } = report;
    const object = `${kind} ${objectKey({ namespace, name })}`;
    const key = JSON.stringify([object, report.reason, report.note]);
    const earlier = this.#sent.get(key);
    if (earlier && now - earlier.at < REPEAT_WINDOW) {
      earlier.count += 1;
      return;
    }
    const isAllowed = now >= this.#pausedUntil && this.#queue.length < MAXIMUM_QUEUE &&
      this.#objects.take(object, now) && this.#namespaces.take(namespace, now) &&
      this.#all.take("", now);
    if (!isAllowed) return this.options.dropped?.();
    const count = (earlier?.count ?? 0) + 1;
    this.#sent.set(key, { at: now, count });
    this.#queue.push({ report, count });
    this.#sending ??= this.#sendAll();
  }

  async flushed(): Promise<void> {
    await this.#sending;
  }

  async #sendAll(): Promise<void> {
    const { clock, dropped } = this.options;
    for (let next = this.#queue.shift(); next; next = this.#queue.shift()) {
      const isPaused = clock.monotonic() < this.#pausedUntil;
      const failure = isPaused ? "" : await this.#send(next.report, next.count);
      if (failure !== undefined) dropped?.();
      if (failure === "") continue;
      // The proxy works without Events, so each reason is logged once.
      if (failure && failure !== this.#failure) {
        this.options.logger.info("cannot send Events", { reason: failure });
      }
      this.#failure = failure;
    }
    this.#sending = undefined;
  }

  async #send(report: EventReport, count: number): Promise<string | undefined> {
    // Events about Nodes live in `default`.
    const { namespace = "default" } = report.regarding;
    try {
      const body = this.#body(report, { namespace, count });
      const status = await this.options.post(eventPath(namespace), body);
      if (status >= 200 && status < 300) return undefined;
      if (status !== 401 && status !== 403) return `the API server answers ${status}`;
      this.#pausedUntil = this.options.clock.monotonic() + PAUSE;
      return `the API server answers ${status}: to see Events, let this node create events ` +
        "(API group events.k8s.io)";
    } catch (error) {
      return messageOf(error);
    }
  }

  /** Returns the object of an Event. @param options `count`: its occurrences, also unsent ones */
  #body(
    { regarding, type, reason, action, note }: EventReport,
    { namespace, count }: { readonly namespace: string; readonly count: number },
  ): Record<string, unknown> {
    const now = this.options.clock.now();
    // meta/v1 `MicroTime` has six digits.
    const time = new Date(now).toISOString().replace("Z", "000Z");
    const base = regarding.name.slice(0, MAXIMUM_NAME_LENGTH).replace(/[^a-z0-9]+$/, "");
    // Makes the names of Events of one millisecond differ.
    this.#serial = (this.#serial + 1) % 1_000_000;
    const suffix = (BigInt(now) * 1_000_000n + BigInt(this.#serial)).toString(16);
    return {
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { name: `${base}.${suffix}`, namespace },
      eventTime: time,
      reportingController: "signpost",
      reportingInstance: `signpost-${this.options.instance}`.slice(0, MAXIMUM_INSTANCE_LENGTH),
      action,
      reason,
      type,
      regarding: {
        apiVersion: "v1",
        kind: regarding.kind,
        name: regarding.name,
        ...(regarding.namespace !== undefined && { namespace }),
        ...(regarding.uid !== "" && { uid: regarding.uid }),
      },
      note: cutToBytes(plain(sanitizeText(note)), MAXIMUM_NOTE_BYTES),
      ...(count > 1 && { series: { count, lastObservedTime: time } }),
    };
  }
}

export interface EventReport {
  readonly regarding: {
    readonly kind: "Service" | "Node";
    readonly namespace?: string;
    readonly name: string;
    /** `""` if unknown. */
    readonly uid: string;
  };
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly action: string;
  /** A sentence for people; at most 1,024 bytes are kept. */
  readonly note: string;
}

export function eventPath(namespace: string): string {
  return `/apis/events.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/events`;
}

function cutToBytes(text: string, bytes: number): string {
  const buffer = new Uint8Array(bytes);
  const { read, written } = new TextEncoder().encodeInto(text, buffer);
  return read === text.length ? text : new TextDecoder().decode(buffer.subarray(0, written));
}

export function nodeEvent(
  nodeName: string,
  event: Pick<EventReport, "type" | "reason" | "note">,
): EventReport {
  // kubelet and kube-proxy put the name where the UID belongs, and `kubectl describe node` looks for it.
  const regarding = { kind: "Node", name: nodeName, uid: nodeName } as const;
  return { regarding, action: "StartKubeProxy", ...event };
}
