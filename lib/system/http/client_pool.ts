/**
 * Adapter: the clients of an HTTP library, by TLS settings: when a certificate or authority has changed, the
 * next request gets a client of its own, and the old one ends with the requests that use it.
 *
 * @module
 */

/** A client for one request. */
export interface Taken<C> {
  readonly client: C;
  /** To be called when the request has ended, once or more. */
  readonly release: () => void;
}

/** Keeps the client that was used last. */
export class ClientPool<C, R> {
  #latest: { readonly key: string; readonly client: C; readonly users: Set<symbol> } | undefined;

  /** @param life how clients are made and ended; requests with the same `key` share one */
  constructor(
    private readonly life: {
      readonly key: (request: R) => string;
      readonly make: (request: R) => C;
      readonly end: (client: C) => void;
    },
  ) {}

  /** The client for a request. */
  take(request: R): Taken<C> {
    const key = this.life.key(request);
    if (this.#latest?.key !== key) {
      this.close();
      this.#latest = { key, client: this.life.make(request), users: new Set() };
    }
    const used = this.#latest;
    const user = Symbol();
    used.users.add(user);
    const release = () => {
      const isLast = used.users.delete(user) && used.users.size === 0;
      if (isLast && used !== this.#latest) this.life.end(used.client);
    };
    return { client: used.client, release };
  }

  /** Ends the client; one that requests use ends with them. */
  close(): void {
    if (this.#latest?.users.size === 0) this.life.end(this.#latest.client);
    this.#latest = undefined;
  }
}
