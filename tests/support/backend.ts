/** Servers that say who they are and whom they see. */
import type { EventLoop } from "./event_loop.ts";
import { type Libc, SystemError } from "./libc.ts";
import type { SocketAddress } from "./socket_address.ts";

/** The answer of a server to each connection or datagram, as one line of JSON. */
export interface Answer {
  /** The host whose server it is. */
  readonly host: string;
  /** The server's own address and port, behind any translation. */
  readonly at: SocketAddress;
  /** The source that the server sees. */
  readonly peer: SocketAddress;
}

/** The address and port of a server. */
export interface ListenOptions {
  /** The namespace's handle. */
  readonly namespace: number;
  readonly host: string;
  readonly protocol: "tcp" | "udp";
  readonly at: SocketAddress;
}

/** Opens servers of one network; they live until the event loop is disposed. */
export class Backends {
  readonly #libc: Libc;
  readonly #loop: EventLoop;

  constructor(libc: Libc, loop: EventLoop) {
    this.#libc = libc;
    this.#loop = loop;
  }

  /**
   * Opens a server: it takes connections from the moment this returns.
   *
   * A TCP server answers at once and then sends back all that it gets; a UDP server answers each
   * datagram.
   *
   * @returns closes the server, not its connections
   */
  listen(options: ListenOptions): () => void {
    const { namespace, host, protocol, at } = options;
    const socket = this.#libc.socket(namespace, {
      family: at.address.includes(":") ? 6 : 4,
      type: protocol,
    });
    this.#libc.setOption(socket, "reuseAddress");
    this.#libc.bind(socket, at);
    if (protocol === "tcp") this.#libc.listen(socket);
    const say = (peer: SocketAddress) => encodeAnswer({ host, at, peer });
    this.#loop.watch(socket, () => {
      if (protocol === "tcp") this.#takeConnections(socket, say);
      else this.#answerDatagrams(socket, say);
    });
    return () => this.#loop.close(socket);
  }

  #takeConnections(server: number, say: (peer: SocketAddress) => Uint8Array<ArrayBuffer>): void {
    for (let next = this.#libc.accept(server); next; next = this.#libc.accept(server)) {
      const { socket, peer } = next;
      this.#loop.watch(socket, () => this.#echo(socket));
      this.#withPeer(socket, () => this.#libc.send(socket, say(peer)));
    }
  }

  #echo(socket: number): void {
    this.#withPeer(socket, () => {
      const got = this.#libc.receive(socket);
      if (got?.data.length === 0) this.#loop.close(socket);
      else if (got) this.#libc.send(socket, new Uint8Array(got.data));
    });
  }

  /** A client that has gone away ends its connection, not the test. */
  #withPeer(socket: number, body: () => void): void {
    try {
      body();
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
      this.#loop.close(socket);
    }
  }

  #answerDatagrams(server: number, say: (peer: SocketAddress) => Uint8Array<ArrayBuffer>): void {
    for (;;) {
      try {
        const got = this.#libc.receive(server);
        if (!got) return;
        this.#libc.send(server, say(got.peer), got.peer);
      } catch (error) {
        // An earlier answer was refused, or rules forbid this one.
        if (!(error instanceof SystemError)) throw error;
      }
    }
  }
}

/** Reads the line that a server sends. */
export function decodeAnswer(line: string): Answer {
  return JSON.parse(line);
}

function encodeAnswer(answer: Answer): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${JSON.stringify(answer)}\n`);
}
