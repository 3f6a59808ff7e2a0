/**
 * Adapter: rounds of Deno's event loop in which the kernel is asked for sockets.
 *
 * Deno asks for them only when nothing else is ready. While lists stream in or `nft` is written to,
 * something always is, and timers that are due come first: a request waited for four turns of long work
 * and more. What a process sends to itself comes when the kernel was asked, and in a tenth of the time
 * that the shortest timer takes.
 *
 * @module
 */

/** Gives rounds to those who wait for one, a round for each. */
export class Rounds {
  readonly #open: () => Sockets;
  #sockets: Sockets | "none" | undefined;
  #last = Promise.resolve();

  /** @param open gives the sockets; where it throws, timers do instead */
  constructor(open: () => Sockets = openSockets) {
    this.#open = open;
  }

  /** Resolves in another round than all others that wait. */
  next(): Promise<void> {
    return this.#last = this.#last.then(() => this.#round());
  }

  async #round(): Promise<void> {
    this.#sockets ??= this.#tryToOpen();
    if (this.#sockets === "none") return await new Promise((resolve) => setTimeout(resolve, 0));
    const { receiver, sender } = this.#sockets;
    // Receive first: what is there already comes without a round.
    const received = receiver.receive(new Uint8Array(1));
    await sender.send(new Uint8Array(1), receiver.addr);
    await received;
  }

  #tryToOpen(): Sockets | "none" {
    try {
      return this.#open();
    } catch {
      return "none";
    }
  }
}

/** Deno lets one socket not send while it receives. */
export interface Sockets {
  readonly receiver: Deno.DatagramConn;
  readonly sender: Deno.DatagramConn;
}

/**
 * Two abstract Unix sockets. Whoever sends to them brings a round forward, and that is all.
 *
 * @throws {Error} where the system lets there be none
 */
export function openSockets(): Sockets {
  const open = () =>
    Deno.listenDatagram({ transport: "unixpacket", path: `\0signpost-${crypto.randomUUID()}` });
  return { receiver: open(), sender: open() };
}
