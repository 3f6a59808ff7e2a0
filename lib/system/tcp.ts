/** Adapter: opens TCP listeners and connections, and copies bytes between two connections. */
import type { Tcp, TcpAddress, TcpConnection, TcpListener } from "../model/ports/ports.ts";

export function tryToClose(connection: { close(): void }): void {
  try {
    connection.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}

/** Returns true if accept(2) failed for one connection alone: its client has reset it. */
function isReset(error: unknown): boolean {
  return error instanceof Deno.errors.NotConnected ||
    error instanceof Deno.errors.ConnectionAborted;
}

/** Bytes of a buffer: small for an idle direction, large for a bulk transfer. */
const SMALL = 2_048;
const LARGE = 65_536;

/** Milliseconds without a byte after which a half-closed connection ends, as HAProxy's client-fin. */
const HALF_CLOSED = 30_000;

/** Milliseconds until accept(2) is tried again after an error, such as too many open files. */
const ACCEPT_PAUSE = 100;

class Connection implements TcpConnection {
  constructor(private readonly conn: Deno.TcpConn, private readonly halfClosed: number) {
    conn.setNoDelay();
    conn.setKeepAlive();
  }

  /** Copies without `pipeTo`, whose readable side closes the whole socket at the end of one direction. */
  async join(other: Connection): Promise<void> {
    let isMoving = false;
    const moved = () => void (isMoving = true);
    const close = () => {
      this.close();
      other.close();
    };
    const pumps = [pump(this.conn, other.conn, moved), pump(other.conn, this.conn, moved)];
    let timer: ReturnType<typeof setInterval> | undefined;
    try {
      await Promise.race(pumps);
      timer = setInterval(() => {
        if (!isMoving) close();
        isMoving = false;
      }, this.halfClosed);
      await Promise.all(pumps);
    } catch {
      // One end has gone, so bytes can no longer be copied.
    } finally {
      clearInterval(timer);
      close();
    }
    await Promise.allSettled(pumps);
  }

  close(): void {
    tryToClose(this.conn);
  }
}

async function pump(from: Deno.TcpConn, to: Deno.TcpConn, moved: () => void): Promise<void> {
  let buffer = new Uint8Array(SMALL);
  for (;;) {
    const count = await from.read(buffer);
    if (count === null) return await to.closeWrite();
    moved();
    for (let at = 0; at < count;) at += await to.write(buffer.subarray(at, count));
    const size = count === buffer.length ? LARGE : count < SMALL ? SMALL : buffer.length;
    if (size !== buffer.length) buffer = new Uint8Array(size);
  }
}

/** Accepts connections until the listener is closed. @param failed runs after an error, before the next try */
export async function acceptAll(
  listener: Deno.TcpListener,
  { accept, failed }: {
    readonly accept: (conn: Deno.TcpConn) => void;
    readonly failed: (error: unknown) => Promise<void>;
  },
): Promise<void> {
  for (;;) {
    try {
      accept(await listener.accept());
    } catch (error) {
      if (error instanceof Deno.errors.BadResource) return;
      if (!isReset(error)) await failed(error);
    }
  }
}

/** Returns the system's TCP. @param halfClosed milliseconds without a byte after which a half-closed connection ends */
export function tcp(halfClosed = HALF_CLOSED): Tcp {
  return {
    listen({ address: hostname, port }: TcpAddress, accept): TcpListener {
      const listener = Deno.listen({ hostname, port });
      const accepting = acceptAll(listener, {
        accept: (conn) => accept(new Connection(conn, halfClosed)),
        failed: () => new Promise((resolve) => setTimeout(resolve, ACCEPT_PAUSE)),
      });
      return {
        close: () => {
          tryToClose(listener);
          // Deno closes the socket when the pending accept(2) has ended.
          return accepting;
        },
      };
    },
    async connect({ address: hostname, port }, { timeout, signal }): Promise<TcpConnection> {
      const attempt = new AbortController();
      const late = () => attempt.abort(new DOMException("no answer in time", "TimeoutError"));
      const timer = setTimeout(late, timeout);
      const stop = () => attempt.abort(signal.reason);
      signal.addEventListener("abort", stop, { once: true });
      try {
        const conn = await Deno.connect({ hostname, port, signal: attempt.signal });
        return new Connection(conn, halfClosed);
      } finally {
        clearTimeout(timer);
        signal.removeEventListener("abort", stop);
      }
    },
  };
}
