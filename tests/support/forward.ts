/** Makes a server of the test process reachable from inside of a test network. */
import { tryToClose } from "../../lib/system/tcp.ts";
import type { Network } from "./network.ts";

/** Takes connections on a port of 127.0.0.1, or another address, in a host and passes them on to the same port outside. */
export class Forwarder implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #port: number;
  readonly #open = new Set<Deno.TcpConn>();
  readonly #running: Promise<void>;

  constructor(
    network: Network,
    options: { readonly host: string; readonly address?: string; readonly port: number },
  ) {
    const { host, address: hostname = "127.0.0.1", port } = options;
    this.#port = port;
    // The socket is made before this returns, and stays in the namespace where it was made.
    this.#listener = network.inside(host, () => Deno.listen({ hostname, port }));
    this.#running = this.#run();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const connection of this.#open) tryToClose(connection);
    await this.#running;
  }

  async #run(): Promise<void> {
    const connections: Promise<void>[] = [];
    for await (const inner of this.#listener) connections.push(this.#pass(inner));
    await Promise.all(connections);
  }

  async #pass(inner: Deno.TcpConn): Promise<void> {
    this.#open.add(inner);
    try {
      const outer = await Deno.connect({ hostname: "127.0.0.1", port: this.#port });
      this.#open.add(outer);
      await Promise.all([pipe(inner, outer), pipe(outer, inner)]);
      this.#open.delete(outer);
    } catch {
      // No program listens outside: the connection ends.
      tryToClose(inner);
    }
    this.#open.delete(inner);
  }
}

/** Passes bytes on until either end breaks, which breaks the other one. */
async function pipe(from: Deno.TcpConn, to: Deno.TcpConn): Promise<void> {
  try {
    await from.readable.pipeTo(to.writable, { preventClose: true });
  } catch {
    // A reset; the other side is told below.
  }
  tryToClose(from);
  tryToClose(to);
}
