/**
 * When a change became visible in the kernel: the kernel itself tells of every committed
 * nftables transaction over netlink, the moment that it is done.
 *
 * @module
 */
import type { Libc } from "./libc.ts";

/** `NFNLGRP_NFTABLES` of linux/netfilter/nfnetlink.h. */
const GROUP = 7;

const BUFFER = 1 << 20;

/** Waits for endpoint addresses to appear in transactions of one namespace. */
export class Commits implements AsyncDisposable {
  readonly #libc: Libc;
  readonly #socket: number;
  readonly #awaited = new Map<string, (time: number) => void>();
  readonly #running: Promise<void>;
  #stopped = false;

  /** Begins to listen. */
  constructor(libc: Libc, namespace: string) {
    this.#libc = libc;
    this.#socket = libc.inside(namespace, () => libc.netfilterEvents(GROUP));
    this.#running = this.#run();
  }

  /** Addresses that have been asked for and not seen. */
  get pending(): number {
    return this.#awaited.size;
  }

  /** The time (`performance.now`) at which an element with this IPv4 address is committed. */
  seen(address: string): Promise<number> {
    return new Promise((resolve) => this.#awaited.set(address, resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    await this.#running;
    this.#libc.close(this.#socket);
  }

  async #run(): Promise<void> {
    const buffer = new Uint8Array(BUFFER);
    while (!this.#stopped) {
      const size = await this.#libc.receive(this.#socket, buffer);
      if (size > 0 && this.#awaited.size > 0) this.#look(buffer, size);
    }
  }

  /** Every awaited address is unique, so finding its four bytes is finding the element. */
  #look(buffer: Uint8Array, size: number): void {
    const now = performance.now();
    for (let i = buffer.indexOf(10); i >= 0 && i < size; i = buffer.indexOf(10, i + 1)) {
      const address = `10.${buffer[i + 1]}.${buffer[i + 2]}.${buffer[i + 3]}`;
      const resolve = this.#awaited.get(address);
      if (resolve === undefined) continue;
      this.#awaited.delete(address);
      resolve(now);
    }
  }
}
