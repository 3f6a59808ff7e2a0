/**
 * Events of the API group events.k8s.io/v1: what is to be said, and the JSON that says it.
 *
 * @module
 */
import { sanitizeText } from "./log/redact.ts";
import { plain } from "../model/values/text.ts";

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
  /** How often it was seen since it was first sent, this time included; 1: no series. */
  readonly count: number;
}

/** The API server refuses longer notes. */
const MAXIMUM_NOTE_BYTES = 1024;
/** Leaves room for the suffix in a name of 253 characters. */
const MAXIMUM_NAME_LENGTH = 230;
const MAXIMUM_INSTANCE_LENGTH = 128;

/** Where an Event about this object is created; Events about Nodes live in `default`. */
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
