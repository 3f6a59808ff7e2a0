/**
 * Writes and reads the text of a state file: a List of Kubernetes objects, one a line, which `--manifests` accepts
 * too. A ConfigMap before the objects names the node and the time.
 *
 * ```
 * {"apiVersion":"v1","kind":"List","items":[
 * {"apiVersion":"v1","kind":"ConfigMap",…,"data":{"version":"3","nodeName":"node-1","written":"…"}}
 * ,{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"web",…
 * ]}
 * ```
 *
 * The text is not trusted: each object is decoded like one of an API server. gzip finds damage of a file.
 */
import {
  type Decoder,
  type EndpointSlice,
  type Kind,
  type KindMap,
  KINDS,
  type Node,
  type ObjectChange,
  type ReplaceEvent,
  type Service,
  type ServiceCIDR,
} from "../../model/cluster/objects.ts";
import { objectKey } from "../../model/cluster/names.ts";
import { show } from "../../model/values/text.ts";
import { encodeObject, kindOf } from "../objects/tables.ts";
import { fieldAt, isRecord, jsonIn } from "../../model/values/record.ts";

/** Thrown for an unusable state file. The message is one line: the fault and its line. */
export class StateError extends Error {
  override name = "StateError";
}

/** The format version that is written, and the only one that is read. */
const STATE_VERSION = 3;

/** The longest line in characters: a small gzip file can hold an endless one. The largest EndpointSlice has 250,000. */
const MAX_LINE = 16 * 1024 * 1024;

/** Objects by `namespace/name`. */
export interface StateObjects {
  readonly services: ReadonlyMap<string, Service>;
  readonly slices: ReadonlyMap<string, EndpointSlice>;
  /** This node; `undefined` before it is known. */
  readonly node: Node | undefined;
  readonly serviceCIDRs: ReadonlyMap<string, ServiceCIDR>;
}

export interface StateHeader {
  readonly nodeName: string;
  /** Milliseconds since the epoch. */
  readonly written: number;
}

export interface SavedState {
  /** The time of writing, milliseconds since the epoch by that clock. It may lie in the future. */
  readonly written: number;
  /** One `replace` for each kind, in the order of `KINDS`. */
  readonly events: readonly ReplaceEvent[];
}

const FIRST_LINE = '{"apiVersion":"v1","kind":"List","items":[';
const LAST_LINE = "]}";

/** Yields the lines of a state as it is at the first line. @throws {StateError} if one is too long to be read again */
export function* stateLines(objects: StateObjects, header: StateHeader): Generator<string> {
  const states: readonly (readonly [Kind, readonly KindMap[Kind][]])[] = [
    ["Service", [...objects.services.values()]],
    ["EndpointSlice", [...objects.slices.values()]],
    ["Node", objects.node ? [objects.node] : []],
    ["ServiceCIDR", [...objects.serviceCIDRs.values()]],
  ];
  yield `${FIRST_LINE}\n${headerLine(header)}\n`;
  for (const [kind, all] of states) {
    for (const object of all) {
      const line = `,${JSON.stringify(encodeObject(kind, object))}\n`;
      if (line.length > MAX_LINE) {
        throw new StateError(`${kind} ${objectKey(object)} is too large to be kept`);
      }
      yield line;
    }
  }
  yield `${LAST_LINE}\n`;
}

export class StateReader {
  /** By kind, then by key. The size of the text bounds the number. */
  readonly #changes = new Map(KINDS.map((kind) => [kind, new Map<string, ObjectChange>()]));
  #rest = "";
  #lines = 0;
  #last = "";
  #written = NaN;

  /** @param options `nodeName`: another node's state is refused */
  constructor(private readonly options: { readonly nodeName: string; readonly decode: Decoder }) {}

  /** Takes the next piece of text. @throws {StateError} if it is not usable here */
  push(text: string): void {
    const lines = text.split("\n");
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#line(line);
    if (this.#rest.length > MAX_LINE) throw this.#damaged("is too long");
  }

  /** Returns the state after the last piece. @throws {StateError} if the text ends too early */
  finish(): SavedState {
    if (this.#lines === 0) throw this.#rest === "" ? new StateError("it is empty") : foreign();
    if (this.#last !== LAST_LINE || this.#rest !== "") {
      throw new StateError("it is truncated: its last line is missing");
    }
    const events = Array.from(
      this.#changes,
      ([kind, changes]) => ({ type: "replace", kind, changes }),
    );
    return { written: this.#written, events: events as readonly ReplaceEvent[] };
  }

  /** Returns the time in the header, milliseconds since the epoch; NaN before it is read. */
  get written(): number {
    return this.#written;
  }

  #line(line: string): void {
    this.#lines++;
    this.#last = line;
    if (this.#lines === 1 && line !== FIRST_LINE) throw foreign();
    if (this.#lines === 2) this.#written = readHeader(line, this.options.nodeName);
    if (this.#lines > 2 && line !== LAST_LINE) this.#object(line);
  }

  #object(line: string): void {
    const raw = line.startsWith(",") ? jsonIn(line.slice(1)) : undefined;
    if (!isRecord(raw)) throw this.#damaged("is not a JSON object");
    const kind = kindOf(raw);
    if (kind === undefined) throw this.#damaged(`is of an unknown kind ${show(raw["kind"])}`);
    const decoded = this.options.decode(kind, raw);
    if (decoded.type !== "upsert") {
      const reason = decoded.type === "refuse" ? decoded.reason : "it does not make rules";
      throw this.#damaged(`(${kind}): ${reason}`);
    }
    const { key } = decoded;
    if (kind === "Node" && key !== this.options.nodeName) {
      throw this.#damaged(`is Node ${key}, and this is ${show(this.options.nodeName)}`);
    }
    const changes = this.#changes.get(kind);
    if (changes?.has(key)) throw this.#damaged(`names ${kind} ${key} a second time`);
    changes?.set(key, decoded);
  }

  #damaged(what: string): StateError {
    return new StateError(`it is damaged: line ${this.#lines} ${what}`);
  }
}

function headerLine({ nodeName, written }: StateHeader): string {
  const version = String(STATE_VERSION);
  return JSON.stringify({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "signpost-state" },
    data: { version, nodeName, written: new Date(written).toISOString() },
  });
}

/** Checks the header, and returns the time of writing. */
function readHeader(line: string, nodeName: string): number {
  const data = fieldAt(jsonIn(line), "data");
  if (!isRecord(data) || typeof data["version"] !== "string") throw foreign();
  const { version } = data;
  if (version !== String(STATE_VERSION)) {
    const isNewer = Number(version) > STATE_VERSION;
    throw new StateError(
      `it is of format version ${show(version)}${isNewer ? ", from a newer signpost" : ""}; ` +
        `this signpost reads version ${STATE_VERSION}`,
    );
  }
  if (data["nodeName"] !== nodeName) {
    throw new StateError(
      `it is the state of node ${show(data["nodeName"])}, and this is node ${show(nodeName)}`,
    );
  }
  const written = Date.parse(String(data["written"]));
  if (Number.isNaN(written) || headerLine({ nodeName, written }) !== line) {
    throw new StateError("it is damaged: line 2 is not what signpost writes");
  }
  return written;
}

function foreign(): StateError {
  return new StateError("it is not a state file of signpost");
}
