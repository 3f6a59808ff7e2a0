/**
 * Adapter: rounds of Deno's event loop in which the kernel is asked for sockets.
 *
 * Deno asks for them only when nothing else is ready. While lists stream in or `nft` is written to,
 * something always is, and timers that are due come first: a request waited for four turns of long work
 * and more. A byte that a process sends to itself comes when the kernel was asked, and in a tenth of the
 * time that the shortest timer takes.
 *
 * @module
 */
import { tryToClose } from "./close.ts";

/**
 * How often a round asks the kernel: for a new connection, for what came on it, and what Deno's server does with
 * either takes steps of its own. Each takes 0.02 ms.
 */
const LOOKS = 5;

/** Gives rounds to those who wait for one, a round for each. */
export class Rounds {
  readonly #connect: () => Promise<SelfConnection>;
  #connection: SelfConnection | undefined;
  #opening: Promise<void> | undefined;
  #last = Promise.resolve();

  /** @param connect gives the connection; where it rejects, or the connection breaks, timers do instead */
  constructor(connect: () => Promise<SelfConnection> = connectWithSelf) {
    this.#connect = connect;
  }

  /** Resolves in another round than all others that wait. */
  next(): Promise<void> {
    return this.#last = this.#last.then(() => this.#round());
  }

  async #round(): Promise<void> {
    this.#opening ??= this.#open();
    if (!this.#connection) return await new Promise((resolve) => setTimeout(resolve, 0));
    const { reader, writer } = this.#connection;
    try {
      for (let i = 0; i < LOOKS; i++) {
        // Read first: what is there already comes without a look.
        await Promise.all([reader.read(new Uint8Array(1)), writer.write(new Uint8Array(1))]);
      }
    } catch {
      this.#connection = undefined;
      close(reader, writer);
    }
  }

  async #open(): Promise<void> {
    this.#connection = await this.#connect().catch(() => undefined);
  }
}

/** The two ends of a connection of this process with itself. */
export interface SelfConnection {
  readonly reader: Deno.Conn;
  readonly writer: Deno.Conn;
}

/** Milliseconds for the proof. */
const LATE = 1_000;

/**
 * Connects by an abstract Unix socket that is gone then: no other process can write to the connection, as
 * each on the node could to a datagram socket.
 *
 * @throws {Error} where another process was faster, or the system lets there be none
 */
export async function connectWithSelf(): Promise<SelfConnection> {
  const name = crypto.randomUUID();
  const address = { transport: "unix", path: `\0signpost-${name}` } as const;
  using listener = Deno.listen(address);
  const [reader, writer] = await Promise.all([listener.accept(), Deno.connect(address)]);
  const proof = new Uint8Array(name.length);
  const late = setTimeout(() => tryToClose(reader), LATE);
  try {
    await writer.write(new TextEncoder().encode(name));
    await reader.read(proof);
    if (new TextDecoder().decode(proof) !== name) throw new Error("another process was faster");
    return { reader, writer };
  } catch (error) {
    close(reader, writer);
    throw error;
  } finally {
    clearTimeout(late);
  }
}

function close(...ends: readonly Deno.Conn[]): void {
  for (const end of ends) tryToClose(end);
}
