/**
 * When a change became visible in the kernel: the kernel itself tells of every committed
 * nftables transaction over netlink, the moment that it is done.
 *
 * @module
 */
import type { Stage } from "./stage.ts";

const SYMBOLS = {
  close: { parameters: ["i32"], result: "i32" },
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
  bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize", nonblocking: true },
} as const;

const AF_NETLINK = 16;
const SOCK_RAW = 3;
const NETLINK_NETFILTER = 12;
/** Options as level and name: a time limit to receive, the size of the buffer, and a group to hear. */
const SO_RCVTIMEO = [1, 20] as const;
const SO_RCVBUFFORCE = [1, 33] as const;
const NETLINK_ADD_MEMBERSHIP = [270, 1] as const;
/** `NFNLGRP_NFTABLES` of linux/netfilter/nfnetlink.h. */
const GROUP = 7;

const BUFFER = 1 << 20;

/** Waits for endpoint addresses to appear in transactions of one namespace. */
export class Commits implements AsyncDisposable {
  readonly #libc = Deno.dlopen("libc.so.6", SYMBOLS);
  readonly #socket: number;
  readonly #awaited = new Map<string, (time: number) => void>();
  readonly #running: Promise<void>;
  #stopped = false;

  /** Begins to listen. */
  constructor(stage: Stage) {
    const { socket, bind } = this.#libc.symbols;
    this.#socket = stage.inside(() => check(socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER)));
    this.#setOption(SO_RCVBUFFORCE, new Int32Array([64 << 20]));
    this.#setOption(SO_RCVTIMEO, new BigInt64Array([1n, 0n]));
    const address = new Uint8Array(12);
    new DataView(address.buffer).setUint16(0, AF_NETLINK, true);
    check(bind(this.#socket, address, address.length));
    this.#setOption(NETLINK_ADD_MEMBERSHIP, new Int32Array([GROUP]));
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
    this.#libc.symbols.close(this.#socket);
    this.#libc.close();
  }

  #setOption(
    [level, name]: readonly [number, number],
    value: Int32Array<ArrayBuffer> | BigInt64Array<ArrayBuffer>,
  ): void {
    const { setsockopt } = this.#libc.symbols;
    check(setsockopt(this.#socket, level, name, value, value.byteLength));
  }

  async #run(): Promise<void> {
    const buffer = new Uint8Array(BUFFER);
    while (!this.#stopped) {
      // It waits for a second at most; -1 if nothing came.
      const size = await this.#libc.symbols.recv(this.#socket, buffer, BigInt(BUFFER), 0);
      if (size > 0 && this.#awaited.size > 0) this.#look(buffer, Number(size));
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

function check(result: number): number {
  if (result < 0) throw new Error("the kernel refuses a netlink socket: run this as root");
  return result;
}
