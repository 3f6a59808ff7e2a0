/** One watch request of the test API server. */
import type { ServerResponse } from "node:http";
import { Buffer } from "node:buffer";
import { errorEvent, type Format } from "./api_answers.ts";
import {
  type ApiObject,
  type ApiStore,
  type Change,
  type Collection,
  Stored,
} from "./api_store.ts";

/** The request of a watch. */
export interface StreamRequest {
  readonly collection: Collection;
  readonly format: Format;
  readonly matches: (object: ApiObject) => boolean;
  /** Changes after this are sent; `undefined`: what there is now, then what comes. */
  readonly since: number | undefined;
  /** True if the end of the initial objects is marked by a bookmark. */
  readonly markEnd: boolean;
}

/** Bytes that are written at once. */
const BATCH = 256 * 1024;

/** Sends initial objects, changes and bookmarks, as fast as the client reads. */
export class ApiStream {
  #queue: Uint8Array[] = [];
  #writing = false;
  #ended = false;
  /** While true nothing is sent: the stream looks alive, but is silent. */
  #silent = false;
  readonly #unsubscribe: () => void;

  constructor(
    private readonly response: ServerResponse,
    private readonly store: ApiStore,
    private readonly request: StreamRequest,
  ) {
    const { collection, since } = request;
    if (since === undefined) this.#sendInitial(store.list(collection.kind));
    else for (const change of store.since(since) ?? []) this.#sendChange(change);
    this.#unsubscribe = store.subscribe((change) => this.#sendChange(change));
    response.on("close", () => this.#unsubscribe());
  }

  get kind(): string {
    return this.request.collection.kind;
  }

  /** Says what the newest resource version is. */
  bookmark(annotations: Readonly<Record<string, string>> = {}): void {
    if (this.store.resourceVersion < (this.request.since ?? 0)) return;
    const { kind, apiVersion } = this.request.collection;
    const metadata = { name: "", resourceVersion: String(this.store.resourceVersion), annotations };
    this.#send(this.request.format.event("BOOKMARK", new Stored({ kind, apiVersion, metadata })));
  }

  /** Tells of an error. */
  error(code: number, message: string): void {
    this.#send(errorEvent(this.request.format, code, message));
  }

  /** Sends a text as it is. */
  send(text: string): void {
    this.#send(new TextEncoder().encode(text));
  }

  #send(bytes: Uint8Array): void {
    if (this.#silent || this.#ended) return;
    this.#queue.push(bytes);
    if (!this.#writing) this.#write();
  }

  /** From now on nothing is sent; changes are lost to this stream. */
  silence(): void {
    this.#silent = true;
  }

  /** Ends the response properly, behind what is to be sent. */
  end(): void {
    this.#unsubscribe();
    this.#ended = true;
    if (!this.#writing) this.response.end();
  }

  /** Cuts the connection. */
  cut(): void {
    this.#unsubscribe();
    this.response.destroy();
  }

  #sendInitial(objects: readonly Stored[]): void {
    for (const stored of objects) {
      if (this.request.matches(stored.object)) this.#sendEvent("ADDED", stored);
    }
    if (this.request.markEnd) this.bookmark({ "k8s.io/initial-events-end": "true" });
  }

  #sendChange({ kind, resourceVersion, before, after }: Change): void {
    if (kind !== this.request.collection.kind) return;
    // As kube-apiserver: nothing is sent that is not newer than what was asked for.
    if (resourceVersion <= (this.request.since ?? 0)) return;
    const { matches } = this.request;
    const old = before && matches(before.object) ? before : undefined;
    const now = after && matches(after.object) ? after : undefined;
    if (now) this.#sendEvent(old ? "MODIFIED" : "ADDED", now);
    else if (old) this.#sendEvent("DELETED", after ?? old);
  }

  #sendEvent(type: string, stored: Stored): void {
    this.#send(this.request.format.event(type, stored));
  }

  async #write(): Promise<void> {
    this.#writing = true;
    // Changes of one task go out together.
    await Promise.resolve();
    while (this.#queue.length > 0 && !this.response.destroyed) {
      const isFull = !this.response.write(this.#takeBatch());
      if (isFull) await drained(this.response);
    }
    this.#writing = false;
    if (this.#ended) this.response.end();
  }

  #takeBatch(): Uint8Array {
    let length = 0;
    let count = 0;
    while (count < this.#queue.length && length < BATCH) {
      length += this.#queue[count]?.length ?? 0;
      count++;
    }
    const batch = Buffer.concat(this.#queue.slice(0, count));
    this.#queue = count === this.#queue.length ? [] : this.#queue.slice(count);
    return batch;
  }
}

/** Resolves when the response takes more, or is gone. */
export function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.once("drain", done);
    response.once("close", done);
  });
}
