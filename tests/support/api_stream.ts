/**
 * One watch request of the test API server.
 *
 * @module
 */
import type { ServerResponse } from "node:http";
import type { ApiObject, ApiStore, Change, Collection, Stored } from "./api_store.ts";

/** What a watch asks for. */
export interface StreamRequest {
  readonly collection: Collection;
  readonly matches: (object: ApiObject) => boolean;
  /** Changes after this are sent; `undefined`: what there is now, then what comes. */
  readonly since: number | undefined;
  /** Whether the end of the initial objects is marked by a bookmark. */
  readonly markEnd: boolean;
}

/** Characters that are written at once. */
const BATCH = 256 * 1024;

/** Sends initial objects, changes and bookmarks, as fast as the client reads. */
export class ApiStream {
  #queue: string[] = [];
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
    const { kind, apiVersion } = this.request.collection;
    const metadata = { resourceVersion: String(this.store.resourceVersion), annotations };
    this.send(JSON.stringify({ type: "BOOKMARK", object: { kind, apiVersion, metadata } }) + "\n");
  }

  /** Sends a text as it is. */
  send(text: string): void {
    if (this.#silent || this.#ended) return;
    this.#queue.push(text);
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
      if (this.request.matches(stored.object)) this.send(eventLine("ADDED", stored));
    }
    if (this.request.markEnd) this.bookmark({ "k8s.io/initial-events-end": "true" });
  }

  #sendChange({ kind, before, after }: Change): void {
    if (kind !== this.request.collection.kind) return;
    const { matches } = this.request;
    const old = before && matches(before.object) ? before : undefined;
    const now = after && matches(after.object) ? after : undefined;
    if (now) this.send(eventLine(old ? "MODIFIED" : "ADDED", now));
    else if (old) this.send(eventLine("DELETED", after ?? old));
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

  #takeBatch(): string {
    let length = 0;
    let count = 0;
    while (count < this.#queue.length && length < BATCH) {
      length += this.#queue[count]?.length ?? 0;
      count++;
    }
    const batch = this.#queue.slice(0, count).join("");
    this.#queue = count === this.#queue.length ? [] : this.#queue.slice(count);
    return batch;
  }
}

function eventLine(type: string, { json }: Stored): string {
  return `{"type":"${type}","object":${json}}\n`;
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
