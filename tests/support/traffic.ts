/** Client connections, and what becomes of them. */
import { type Answer, decodeAnswer } from "./backend.ts";
import type { EventLoop } from "./event_loop.ts";
import { type Libc, SystemError } from "./libc.ts";
import type { SocketAddress } from "./socket_address.ts";
import { wordsOf } from "./table.ts";

/** Errors by which a kernel or a peer says no, TCP resets and ICMP messages alike. */
const REFUSALS: ReadonlySet<string> = new Set(
  wordsOf("ECONNREFUSED EHOSTUNREACH ENETUNREACH EACCES EPERM ECONNRESET EPROTO"),
);

/** The outcome of one connection or datagram. */
export type Outcome =
  | {
    readonly type: "answer";
    readonly answer: Answer;
    /** The client's own address and port, before any translation. */
    readonly source: SocketAddress;
  }
  /** `error` is the name of errno(3). */
  | { readonly type: "reject"; readonly error: string }
  | { readonly type: "drop" };

/** Whom to connect to, from where. */
export interface ConnectOptions {
  /** The namespace's handle. */
  readonly namespace: number;
  readonly protocol: "tcp" | "udp";
  readonly source: SocketAddress;
  readonly destination: SocketAddress;
  /** Milliseconds of silence that count as a drop. */
  readonly timeout: number;
}

/** A TCP connection that stays open. */
export interface LongConnection {
  /** The server's first words. */
  readonly answer: Answer;
  /** Sends a line and gives what comes back; rejects where the connection breaks or falls silent. */
  exchange(line: string): Promise<string>;
  /** Ends the connection. */
  close(): void;
}

/** Opens client connections of one network. */
export class Clients {
  readonly #libc: Libc;
  readonly #loop: EventLoop;

  constructor(libc: Libc, loop: EventLoop) {
    this.#libc = libc;
    this.#loop = loop;
  }

  /** Connects once, or sends one datagram, and closes. */
  async connect(options: ConnectOptions): Promise<Outcome> {
    let wire: Wire;
    try {
      wire = this.#open(options);
    } catch (error) {
      return refusal(error);
    }
    try {
      const source = this.#libc.localAddress(wire.socket);
      if (options.protocol === "tcp") this.#libc.resetOnClose(wire.socket);
      const line = await wire.readLine(options.timeout);
      if (line === undefined) return { type: "drop" };
      return { type: "answer", answer: decodeAnswer(line), source };
    } catch (error) {
      return refusal(error);
    } finally {
      wire.close();
    }
  }

  /** Connects by TCP and stays. */
  async stay(options: Omit<ConnectOptions, "protocol">): Promise<LongConnection> {
    const wire = this.#open({ ...options, protocol: "tcp" });
    const read = async (): Promise<string> => {
      const line = await wire.readLine(options.timeout);
      if (line === undefined) throw new Error(`silence for ${options.timeout} ms`);
      return line;
    };
    try {
      const answer = decodeAnswer(await read());
      return {
        answer,
        exchange: async (line) => {
          wire.send(`${line}\n`);
          return await read();
        },
        close: () => wire.close(),
      };
    } catch (error) {
      wire.close();
      throw error;
    }
  }

  /** Sends a text by TCP and gives all that comes back until the other side ends the connection. */
  async request(options: Omit<ConnectOptions, "protocol">, text: string): Promise<string> {
    const wire = this.#open({ ...options, protocol: "tcp" });
    try {
      await wire.sendWhenConnected(text, options.timeout);
      return await wire.readAll(options.timeout);
    } finally {
      wire.close();
    }
  }

  #open(options: ConnectOptions): Wire {
    const { namespace, protocol, source, destination } = options;
    const family = destination.address.includes(":") ? 6 : 4;
    const socket = this.#libc.socket(namespace, { family, type: protocol });
    try {
      this.#libc.setOption(socket, "bindWithoutPort");
      // A program that starts holds copies of closed sockets for a moment, with their ports.
      if (source.port !== 0) this.#libc.setOption(socket, "reuseAddress");
      this.#libc.bind(socket, source);
      this.#libc.setOption(socket, family === 4 ? "receiveErrors4" : "receiveErrors6");
      this.#libc.connect(socket, destination);
      const wire = new Wire(this.#libc, this.#loop, socket);
      if (protocol === "udp") this.#sendDatagram(socket);
      return wire;
    } catch (error) {
      this.#libc.close(socket);
      throw error;
    }
  }

  /**
   * Rules on the output path refuse the call itself (`EPERM`) for a drop and for a reject alike;
   * a reject leaves its ICMP error on the socket as well.
   */
  #sendDatagram(socket: number): void {
    try {
      this.#libc.send(socket, new TextEncoder().encode("?"));
    } catch (error) {
      if (!(error instanceof SystemError) || error.code !== "EPERM") throw error;
    }
  }
}

/** The other side has ended the connection; to who waits for a line that is as good as a reset. */
class EndOfStream extends SystemError {
  constructor() {
    super("recv", 104);
  }
}

/** A connected socket, read by lines. */
class Wire {
  readonly #libc: Libc;
  readonly #loop: EventLoop;
  readonly #decoder = new TextDecoder();
  #received = "";
  #failure: unknown;
  #isOpen = true;
  #notify: () => void = () => {};

  constructor(libc: Libc, loop: EventLoop, readonly socket: number) {
    this.#libc = libc;
    this.#loop = loop;
    loop.watch(socket, () => this.#read());
  }

  send(text: string): void {
    // The number of a closed socket may be another file's by now.
    if (this.#failure !== undefined) throw this.#failure;
    this.#libc.send(this.socket, new TextEncoder().encode(text));
  }

  /** The event loop tells of what can be read only, so that the end of connect(2) is asked for. */
  async sendWhenConnected(text: string, timeout: number): Promise<void> {
    const end = performance.now() + timeout;
    for (;;) {
      try {
        return this.send(text);
      } catch (error) {
        if (!(error instanceof SystemError) || error.code !== "EAGAIN") throw error;
      }
      if (performance.now() >= end) throw new Error(`no connection for ${timeout} ms`);
      await this.#change(1);
    }
  }

  /** The next line; `undefined` after so many milliseconds of silence. */
  async readLine(timeout: number): Promise<string | undefined> {
    const end = performance.now() + timeout;
    for (;;) {
      const newline = this.#received.indexOf("\n");
      if (newline >= 0) {
        const line = this.#received.slice(0, newline);
        this.#received = this.#received.slice(newline + 1);
        return line;
      }
      if (this.#failure !== undefined) throw this.#failure;
      const left = end - performance.now();
      if (left <= 0) return undefined;
      await this.#change(left);
    }
  }

  /** Everything until the other side ends the connection. */
  async readAll(timeout: number): Promise<string> {
    const end = performance.now() + timeout;
    while (this.#failure === undefined) {
      const left = end - performance.now();
      if (left <= 0) throw new Error(`silence for ${timeout} ms`);
      await this.#change(left);
    }
    if (!(this.#failure instanceof EndOfStream)) throw this.#failure;
    return this.#received;
  }

  close(): void {
    if (this.#isOpen) this.#loop.close(this.socket);
    this.#isOpen = false;
  }

  async #change(timeout: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, timeout);
    this.#notify = resolve;
    await promise;
    clearTimeout(timer);
  }

  #read(): void {
    try {
      const error = this.#libc.takeError(this.socket);
      if (error) throw error;
      const got = this.#libc.receive(this.socket);
      if (!got) return;
      if (got.data.length === 0) throw new EndOfStream();
      this.#received += this.#decoder.decode(got.data, { stream: true });
    } catch (error) {
      this.#failure ??= error;
      this.close();
    }
    this.#notify();
  }
}

/** Returns the outcome that an error of a client's socket means; throws it again if it is not of the network. */
export function refusal(error: unknown): Outcome {
  if (!(error instanceof SystemError)) throw error;
  if (REFUSALS.has(error.code)) return { type: "reject", error: error.code };
  if (error.code === "ETIMEDOUT") return { type: "drop" };
  throw error;
}
