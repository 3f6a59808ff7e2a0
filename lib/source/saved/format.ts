/**
 * The text of a state file: a header, one line of JSON for each object, and a trailer with counts
 * and a checksum. Line by line, so that nobody ever holds the whole text.
 *
 * ```
 * {"signpost":"state","version":1,"nodeName":"node-1","written":1767225600000}
 * {"kind":"Service","object":{"namespace":"default","name":"web",…}}
 * {"end":{"Service":1,"EndpointSlice":0,"Node":0,"ServiceCIDR":0},"sha256":"…"}
 * ```
 *
 * The checksum finds damage. It does not make the text trustworthy: each object is checked anew.
 *
 * @module
 */
import { createHash } from "node:crypto";
import type { ObjectEvent } from "../../model/events.ts";
import { objectKey } from "../../model/names.ts";
import {
  type EndpointSlice,
  type Kind,
  type KindMap,
  KINDS,
  type Node,
  type Service,
  type ServiceCIDR,
} from "../../model/objects.ts";
import { isJsonObject, Mismatch, quote, StateError } from "./check.ts";
import { createKindChecks, time } from "./objects.ts";

/** The version that is written, and the only one that is read. */
export const STATE_VERSION = 1;

/** Characters; an EndpointSlice of 1,000 endpoints, the most that the API takes, has 250,000. */
const MAX_LINE = 16 * 1024 * 1024;

/** The complete state: what the endpoint cache holds. */
export interface StateObjects {
  readonly services: ReadonlyMap<string, Service>;
  readonly slices: ReadonlyMap<string, EndpointSlice>;
  /** This node; `undefined` while it is not known. */
  readonly node: Node | undefined;
  readonly serviceCIDRs: ReadonlyMap<string, ServiceCIDR>;
}

/** Whose state it is, and of when. */
export interface StateHeader {
  readonly nodeName: string;
  /** Milliseconds since the epoch. */
  readonly written: number;
}

/** A state as it was read. */
export interface SavedState {
  /** When it was written, milliseconds since the epoch by the clock of then; may lie in the future. */
  readonly written: number;
  /** One `replace` for each kind, in the order of `KINDS`: all of them are one state. */
  readonly events: readonly ReplaceEvent[];
}

/** The complete state of one kind. */
export type ReplaceEvent = Extract<ObjectEvent, { readonly type: "replace" }>;

type Counts = Record<Kind, number>;

/**
 * The lines of a state, each with its line end.
 *
 * The objects are those of the moment when the first line is taken: the caches may change while
 * the lines are written (objects themselves never do).
 *
 * @throws {StateError} where a line would be too long to be read again
 */
export function* stateLines(objects: StateObjects, header: StateHeader): Generator<string> {
  const states: readonly (readonly [Kind, readonly KindMap[Kind][]])[] = [
    ["Service", [...objects.services.values()]],
    ["EndpointSlice", [...objects.slices.values()]],
    ["Node", objects.node ? [objects.node] : []],
    ["ServiceCIDR", [...objects.serviceCIDRs.values()]],
  ];
  const hash = createHash("sha256");
  const counts = noCounts();
  const { nodeName, written } = header;
  const first = `${
    JSON.stringify({ signpost: "state", version: STATE_VERSION, nodeName, written })
  }\n`;
  hash.update(first);
  yield first;
  for (const [kind, all] of states) {
    counts[kind] = all.length;
    for (const object of all) {
      const line = `${JSON.stringify({ kind, object: kept(object) })}\n`;
      if (line.length > MAX_LINE) {
        throw new StateError(`${kind} ${objectKey(object)} is too large to be kept`);
      }
      hash.update(line);
      yield line;
    }
  }
  yield `${trailer(counts, hash.digest("hex"))}\n`;
}

/** What was left out of an object is told of again when its source has it again. */
function kept(object: KindMap[Kind]): KindMap[Kind] {
  if (!object.omitted) return object;
  const { omitted: _, ...rest } = object;
  return rest;
}

/** Reads the text of a state file, in pieces of any size. */
export class StateReader {
  readonly #hash = createHash("sha256");
  readonly #checks = createKindChecks();
  readonly #objects: { readonly [K in Kind]: Map<string, KindMap[K]> } = {
    Service: new Map(),
    EndpointSlice: new Map(),
    Node: new Map(),
    ServiceCIDR: new Map(),
  };
  #rest = "";
  #lines = 0;
  #written: number | undefined;
  #ended = false;

  /** @param nodeName this node; the state of another one is refused */
  constructor(private readonly nodeName: string) {}

  /**
   * Takes the next piece of text.
   *
   * @throws {StateError} where the text is not a state file, or not one that can be used here
   */
  push(text: string): void {
    const lines = text.split("\n");
    const last = lines.pop() ?? "";
    for (const line of lines) {
      this.#line(this.#rest + line);
      this.#rest = "";
    }
    this.#rest += last;
    if (this.#rest.length > MAX_LINE) throw this.#damaged("is too long");
  }

  /**
   * The state, once all text was given.
   *
   * @throws {StateError} where the text ends too early
   */
  finish(): SavedState {
    if (this.#lines === 0 && this.#rest === "") throw new StateError("it is empty");
    if (this.#lines === 0) throw foreign();
    if (!this.#ended || this.#rest !== "" || this.#written === undefined) {
      throw new StateError("it is truncated: its last line is missing");
    }
    const events = KINDS.map((kind) => ({
      type: "replace",
      kind,
      objects: this.#objects[kind],
      refused: new Map(),
    } as ReplaceEvent));
    return { written: this.#written, events };
  }

  #line(line: string): void {
    this.#lines++;
    if (this.#ended) throw this.#damaged("comes after the end");
    if (this.#lines === 1) this.#written = readHeader(line, this.nodeName);
    else if (line.startsWith('{"end":')) return this.#end(line);
    else this.#object(line);
    this.#hash.update(`${line}\n`);
  }

  #object(line: string): void {
    const value = parseJson(line);
    if (!isJsonObject(value)) throw this.#damaged("is not a JSON object");
    const kind = KINDS.find((each) => each === value["kind"]);
    if (kind === undefined || Object.keys(value).length !== 2) {
      throw this.#damaged(`is of an unknown kind ${quote(value["kind"])}`);
    }
    try {
      this.#store(kind, this.#checks[kind](value["object"]));
    } catch (error) {
      throw error instanceof Mismatch ? this.#damaged(`(${kind}): ${error.message}`) : error;
    }
  }

  #store(kind: Kind, object: KindMap[Kind]): void {
    const objects: Map<string, KindMap[Kind]> = this.#objects[kind];
    const key = objectKey(object);
    if (objects.has(key)) throw this.#damaged(`names ${kind} ${key} a second time`);
    if (kind === "Node" && object.name !== this.nodeName) {
      throw this.#damaged(`is Node ${object.name}, and this is ${quote(this.nodeName)}`);
    }
    objects.set(key, object);
  }

  /** The trailer can be written in one way only, so that no change of it goes unseen. */
  #end(line: string): void {
    const counts = noCounts();
    for (const kind of KINDS) counts[kind] = this.#objects[kind].size;
    if (line !== trailer(counts, this.#hash.digest("hex"))) {
      throw this.#damaged("does not have the counts and the checksum of the lines before it");
    }
    this.#ended = true;
  }

  #damaged(what: string): StateError {
    return new StateError(`it is damaged: line ${this.#lines} ${what}`);
  }
}

/** @returns when the state was written */
function readHeader(line: string, nodeName: string): number {
  const header = parseJson(line);
  if (!isJsonObject(header) || header["signpost"] !== "state") throw foreign();
  const { version } = header;
  if (version !== STATE_VERSION) {
    const isNewer = typeof version === "number" && version > STATE_VERSION;
    throw new StateError(
      `it is of format version ${quote(version)}${isNewer ? ", from a newer signpost" : ""}; ` +
        `this signpost reads version ${STATE_VERSION}`,
    );
  }
  if (header["nodeName"] !== nodeName) {
    throw new StateError(
      `it is the state of node ${quote(header["nodeName"])}, and this is node ${quote(nodeName)}`,
    );
  }
  try {
    if (Object.keys(header).length !== 4) throw new Mismatch("must have 4 fields", header);
    return time(header["written"]);
  } catch (error) {
    if (!(error instanceof Mismatch)) throw error;
    throw new StateError(`it is damaged: line 1: ${error.message}`);
  }
}

function foreign(): StateError {
  return new StateError("it is not a state file of signpost");
}

function trailer(counts: Counts, sha256: string): string {
  return JSON.stringify({ end: counts, sha256 });
}

function noCounts(): Counts {
  return { Service: 0, EndpointSlice: 0, Node: 0, ServiceCIDR: 0 };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
