/**
 * Blocking system calls that Deno's own sockets cannot do: other namespaces, netlink, and
 * connections at the cost of three system calls.
 *
 * @module
 */

const SYMBOLS = {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  setns: { parameters: ["i32", "i32"], result: "i32" },
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
  bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  listen: { parameters: ["i32", "i32"], result: "i32" },
  accept4: { parameters: ["i32", "pointer", "pointer", "i32"], result: "i32" },
} as const;

const WAITING = {
  recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize", nonblocking: true },
} as const;

const CLONE_NEWNET = 0x40000000;
const O_CLOEXEC = 0o2000000;
const AF_INET = 2;
const AF_NETLINK = 16;
const NETLINK_NETFILTER = 12;
const SOCK_STREAM = 1;
const SOCK_RAW = 3;
const SOL_SOCKET = 1;
const SOL_NETLINK = 270;
const NETLINK_ADD_MEMBERSHIP = 1;
const SO_REUSEADDR = 2;
const SO_LINGER = 13;
const SO_RCVTIMEO = 20;
const SO_RCVBUFFORCE = 33;

/** System calls; descriptors are plain numbers. Every failure throws. */
export class Libc {
  readonly #symbols = Deno.dlopen("libc.so.6", SYMBOLS).symbols;
  readonly #waiting = Deno.dlopen("libc.so.6", WAITING).symbols;

  /** Puts this thread into a network namespace, by the name that `ip netns` knows; for good. */
  enter(namespace: string): void {
    const descriptor = this.#openNamespace(`/run/netns/${namespace}`);
    check("setns", this.#symbols.setns(descriptor, CLONE_NEWNET));
    this.#symbols.close(descriptor);
  }

  /** Does something synchronous in another network namespace. */
  inside<T>(namespace: string, body: () => T): T {
    const home = this.#openNamespace("/proc/thread-self/ns/net");
    this.enter(namespace);
    try {
      return body();
    } finally {
      check("setns", this.#symbols.setns(home, CLONE_NEWNET));
      this.#symbols.close(home);
    }
  }

  /** A netlink socket that hears of every change of a netfilter group; `receive` waits a second at most. */
  netfilterEvents(group: number): number {
    const socket = check("socket", this.#symbols.socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER));
    this.#setOption(socket, [SOL_SOCKET, SO_RCVBUFFORCE], new Int32Array([64 << 20]));
    this.#setOption(socket, [SOL_SOCKET, SO_RCVTIMEO], new BigInt64Array([1n, 0n]));
    const address = new Uint8Array(12);
    new DataView(address.buffer).setUint16(0, AF_NETLINK, true);
    check("bind", this.#symbols.bind(socket, address, address.length));
    this.#setOption(socket, [SOL_NETLINK, NETLINK_ADD_MEMBERSHIP], new Int32Array([group]));
    return socket;
  }

  /** Waits for what comes next, without blocking this thread; 0 where nothing came. */
  async receive(socket: number, buffer: Uint8Array<ArrayBuffer>): Promise<number> {
    const size = await this.#waiting.recv(socket, buffer, BigInt(buffer.length), 0);
    return Math.max(0, Number(size));
  }

  /** A server for IPv4 connections. */
  listen(address: string, port: number): number {
    const socket = check("socket", this.#symbols.socket(AF_INET, SOCK_STREAM, 0));
    this.#setOption(socket, [SOL_SOCKET, SO_REUSEADDR], new Int32Array([1]));
    const name = ipv4(address, port);
    check("bind", this.#symbols.bind(socket, name, name.length));
    check("listen", this.#symbols.listen(socket, 4096));
    return socket;
  }

  /** Waits for a connection. */
  accept(server: number): number {
    return check("accept4", this.#symbols.accept4(server, null, null, 0));
  }

  /** Opens an IPv4 connection and waits until it is established; `name` is made by `ipv4`. */
  connect(name: Uint8Array<ArrayBuffer>): number {
    const socket = check("socket", this.#symbols.socket(AF_INET, SOCK_STREAM, 0));
    check("connect", this.#symbols.connect(socket, name, name.length));
    return socket;
  }

  /** Ends a connection by a reset, so that its port is free at once. */
  reset(socket: number): void {
    this.#setOption(socket, [SOL_SOCKET, SO_LINGER], new Int32Array([1, 0]));
    this.#symbols.close(socket);
  }

  /** Closes a descriptor. */
  close(descriptor: number): void {
    this.#symbols.close(descriptor);
  }

  #openNamespace(path: string): number {
    return check("open", this.#symbols.open(new TextEncoder().encode(`${path}\0`), O_CLOEXEC));
  }

  #setOption(
    socket: number,
    [level, name]: readonly [number, number],
    value: Int32Array<ArrayBuffer> | BigInt64Array<ArrayBuffer>,
  ): void {
    check("setsockopt", this.#symbols.setsockopt(socket, level, name, value, value.byteLength));
  }
}

/** A `sockaddr_in` (ip(7)). */
export function ipv4(address: string, port: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, AF_INET, true);
  view.setUint16(2, port);
  bytes.set(address.split(".").map(Number), 4);
  return bytes;
}

function check(call: string, result: number): number {
  if (result < 0) throw new Error(`${call} failed`);
  return result;
}
