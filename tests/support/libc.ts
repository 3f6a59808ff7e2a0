/**
 * Sockets as the kernel offers them, through libc: in any network namespace, with any source
 * address, and with the ICMP errors of UDP, none of which Deno's own sockets can do.
 *
 * Every call is non-blocking, so that one process holds all clients and servers of a test.
 */
import { decodeSocketAddress, encodeSocketAddress, type SocketAddress } from "./socket_address.ts";

const SYMBOLS = {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  setns: { parameters: ["i32", "i32"], result: "i32" },
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
  getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
  bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  listen: { parameters: ["i32", "i32"], result: "i32" },
  accept4: { parameters: ["i32", "buffer", "buffer", "i32"], result: "i32" },
  getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  sendto: { parameters: ["i32", "buffer", "usize", "i32", "buffer", "u32"], result: "isize" },
  recvfrom: { parameters: ["i32", "buffer", "usize", "i32", "buffer", "buffer"], result: "isize" },
  epoll_create1: { parameters: ["i32"], result: "i32" },
  epoll_ctl: { parameters: ["i32", "i32", "i32", "buffer"], result: "i32" },
  epoll_wait: { parameters: ["i32", "buffer", "i32", "i32"], result: "i32", nonblocking: true },
  eventfd: { parameters: ["u32", "i32"], result: "i32" },
  write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  __errno_location: { parameters: [], result: "pointer" },
} as const;

/** Numbers of the system calls' arguments; see socket(2), ip(7), ipv6(7) and the kernel's headers. */
const CLONE_NEWNET = 0x40000000;
const O_CLOEXEC = 0o2000000;
const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_NONBLOCK_CLOEXEC = 0o4000 | O_CLOEXEC;
const MSG_NOSIGNAL = 0x4000;
const MSG_ERRQUEUE = 0x2000;
const SOL_SOCKET = 1;
const SO_ERROR = 4;
const SO_LINGER = 13;
const ECONNREFUSED = 111;

/** Socket types of socket(2). */
const SOCKET_TYPES = { tcp: 1, udp: 2, raw: 3 } as const;

/** Options of setsockopt(2) that tests need, as level and name. */
export const OPTIONS = {
  reuseAddress: [SOL_SOCKET, 2],
  /** Have every ICMP error reported, not only those that the protocol holds for final. */
  receiveErrors4: [0, 11],
  receiveErrors6: [41, 25],
  /**
   * Have connect(2) choose the port, not bind(2): a port is then taken for one destination only, and
   * those of ended connections do not run out.
   */
  bindWithoutPort: [0, 24],
} as const;

const ERROR_NAMES: Readonly<Record<number, string>> = {
  1: "EPERM",
  2: "ENOENT",
  11: "EAGAIN",
  13: "EACCES",
  22: "EINVAL",
  71: "EPROTO",
  98: "EADDRINUSE",
  99: "EADDRNOTAVAIL",
  101: "ENETUNREACH",
  104: "ECONNRESET",
  110: "ETIMEDOUT",
  111: "ECONNREFUSED",
  113: "EHOSTUNREACH",
  115: "EINPROGRESS",
};

/** A failed system call. */
export class SystemError extends Error {
  override name = "SystemError";
  /** The name as in errno(3), for example `ECONNREFUSED`. */
  readonly code: string;

  constructor(call: string, errno: number) {
    const code = ERROR_NAMES[errno] ?? `errno ${errno}`;
    super(`${call}: ${code}`);
    this.code = code;
  }
}

/** The handful of libc functions that tests need; file descriptors are plain numbers. */
export class Libc implements Disposable {
  readonly #library = Deno.dlopen("libc.so.6", SYMBOLS);
  readonly #home = this.#check("open", this.#openPath("/proc/thread-self/ns/net"));

  /** Opens a network namespace by its path. */
  openNamespace(path: string): number {
    return this.#check(`open ${path}`, this.#openPath(path));
  }

  /** Runs a synchronous function with this thread in another network namespace. */
  inside<T>(namespace: number, body: () => T): T {
    this.#check("setns", this.#library.symbols.setns(namespace, CLONE_NEWNET));
    try {
      return body();
    } finally {
      this.#check("setns", this.#library.symbols.setns(this.#home, CLONE_NEWNET));
    }
  }

  /** A non-blocking socket that stays in the namespace where it is made. */
  socket(namespace: number, options: {
    readonly family: 4 | 6;
    readonly type: keyof typeof SOCKET_TYPES;
    /** Protocol number; 0: the type's own. */
    readonly protocol?: number;
  }): number {
    const family = options.family === 4 ? AF_INET : AF_INET6;
    const type = SOCKET_TYPES[options.type] | SOCK_NONBLOCK_CLOEXEC;
    return this.inside(
      namespace,
      () =>
        this.#check("socket", this.#library.symbols.socket(family, type, options.protocol ?? 0)),
    );
  }

  setOption(socket: number, option: keyof typeof OPTIONS): void {
    const [level, name] = OPTIONS[option];
    const one = new Int32Array([1]);
    this.#check("setsockopt", this.#library.symbols.setsockopt(socket, level, name, one, 4));
  }

  /** Has close(2) reset the connection, so that neither end has to remember it for a minute. */
  resetOnClose(socket: number): void {
    const linger = new Int32Array([1, 0]);
    this.#check(
      "setsockopt",
      this.#library.symbols.setsockopt(socket, SOL_SOCKET, SO_LINGER, linger, linger.byteLength),
    );
  }

  /**
   * Takes the error that waits on a socket; `undefined` where there is none.
   *
   * An ICMP error that arrives while connect(2) still runs is no more than a hint to TCP, which
   * would ask again a second later. With `receiveErrors` it is queued all the same, see ip(7).
   */
  takeError(socket: number): SystemError | undefined {
    const value = new Int32Array(1);
    const length = new Uint32Array([4]);
    this.#check(
      "getsockopt",
      this.#library.symbols.getsockopt(socket, SOL_SOCKET, SO_ERROR, value, length),
    );
    if (value[0]) return new SystemError("connect", value[0]);
    return this.takeQuotedPacket(socket) && new SystemError("connect", ECONNREFUSED);
  }

  /** The packet that the next queued ICMP error quotes; `undefined` where none is queued. */
  takeQuotedPacket(socket: number): Uint8Array | undefined {
    const packet = new Uint8Array(512);
    const size = this.#library.symbols.recvfrom(
      socket,
      packet,
      BigInt(packet.length),
      MSG_ERRQUEUE,
      null,
      null,
    );
    return size < 0 ? undefined : packet.subarray(0, Number(size));
  }

  bind(socket: number, address: SocketAddress): void {
    const bytes = encodeSocketAddress(address);
    this.#check("bind", this.#library.symbols.bind(socket, bytes, bytes.length));
  }

  /** Begins to connect; `EINPROGRESS` is not an error. Tries again if the kernel found no free port (`EAGAIN`). */
  connect(socket: number, address: SocketAddress, attempts = 3): void {
    const bytes = encodeSocketAddress(address);
    if (this.#library.symbols.connect(socket, bytes, bytes.length) === 0) return;
    const error = this.#lastError("connect");
    if (error.code === "EAGAIN" && attempts > 1) return this.connect(socket, address, attempts - 1);
    if (error.code !== "EINPROGRESS") throw error;
  }

  listen(socket: number): void {
    this.#check("listen", this.#library.symbols.listen(socket, 1024));
  }

  /** The next connection; `undefined` where none waits. */
  accept(socket: number): { readonly socket: number; readonly peer: SocketAddress } | undefined {
    const name = new Uint8Array(28);
    const length = new Uint32Array([name.length]);
    const accepted = this.#library.symbols.accept4(socket, name, length, SOCK_NONBLOCK_CLOEXEC);
    if (accepted < 0) return this.#nothingYet("accept");
    return { socket: accepted, peer: decodeSocketAddress(name) };
  }

  localAddress(socket: number): SocketAddress {
    const name = new Uint8Array(28);
    const length = new Uint32Array([name.length]);
    this.#check("getsockname", this.#library.symbols.getsockname(socket, name, length));
    return decodeSocketAddress(name);
  }

  /** Sends to `peer`, or to where the socket is connected. */
  send(socket: number, data: Uint8Array<ArrayBuffer>, peer?: SocketAddress): void {
    const name = peer ? encodeSocketAddress(peer) : null;
    const sent = this.#library.symbols.sendto(
      socket,
      data,
      BigInt(data.length),
      MSG_NOSIGNAL,
      name,
      name?.length ?? 0,
    );
    this.#check("send", Number(sent));
  }

  /** Returns the received bytes, empty at the end of a stream; `undefined` if there are none. */
  receive(socket: number): { readonly data: Uint8Array; readonly peer: SocketAddress } | undefined {
    const data = new Uint8Array(4096);
    const name = new Uint8Array(28);
    const length = new Uint32Array([name.length]);
    const size = Number(
      this.#library.symbols.recvfrom(socket, data, BigInt(data.length), 0, name, length),
    );
    if (size < 0) return this.#nothingYet("recv");
    return { data: data.subarray(0, size), peer: decodeSocketAddress(name) };
  }

  close(descriptor: number): void {
    this.#check("close", this.#library.symbols.close(descriptor));
  }

  /** epoll_create1(2). */
  createPoll(): number {
    return this.#check("epoll_create1", this.#library.symbols.epoll_create1(O_CLOEXEC));
  }

  /** epoll_ctl(2); the event's bytes are the caller's. */
  controlPoll(poll: number, operation: number, event: {
    readonly descriptor: number;
    readonly bytes: Uint8Array<ArrayBuffer>;
  }): void {
    const { descriptor, bytes } = event;
    this.#check("epoll_ctl", this.#library.symbols.epoll_ctl(poll, operation, descriptor, bytes));
  }

  /** epoll_wait(2) on another thread, without a time limit; resolves to the number of events. */
  async waitPoll(poll: number, events: Uint8Array<ArrayBuffer>, capacity: number): Promise<number> {
    return Math.max(0, await this.#library.symbols.epoll_wait(poll, events, capacity, -1));
  }

  /** An eventfd(2), to wake who waits. */
  createWaker(): number {
    return this.#check("eventfd", this.#library.symbols.eventfd(0, O_CLOEXEC));
  }

  /** Makes an eventfd readable. */
  wake(waker: number): void {
    const one = new BigUint64Array([1n]);
    this.#check("write", Number(this.#library.symbols.write(waker, one, 8n)));
  }

  [Symbol.dispose](): void {
    this.close(this.#home);
    this.#library.close();
  }

  #openPath(path: string): number {
    return this.#library.symbols.open(new TextEncoder().encode(`${path}\0`), O_CLOEXEC);
  }

  #check(call: string, result: number): number {
    if (result < 0) throw this.#lastError(call);
    return result;
  }

  #nothingYet(call: string): undefined {
    const error = this.#lastError(call);
    if (error.code !== "EAGAIN") throw error;
    return undefined;
  }

  #lastError(call: string): SystemError {
    const location = this.#library.symbols.__errno_location();
    if (location === null) throw new Error("libc has no errno");
    return new SystemError(call, new Deno.UnsafePointerView(location).getInt32());
  }
}
