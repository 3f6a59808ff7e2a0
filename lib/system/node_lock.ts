/**
 * Adapter: the lock is an abstract Unix socket. It belongs to the network namespace, as the rules
 * do, needs no file, and goes with its process, however that ends. Who connects is told in one line
 * who holds it, and sees the end of the connection when the holder ends.
 *
 * @module
 */
import type { LockHolder, LockRefusal, NodeLock } from "../model/ports/node_lock.ts";
import { SystemClock } from "./clock.ts";
import { tryToClose } from "./close.ts";

/** Its name as `ss -xl` shows it is `@signpost`. */
const PATH = "\0signpost";

/** Connections that are kept open for those who wait. */
const MAX_WAITING = 16;

/** Milliseconds that the holder has to say who it is. */
const TIMEOUT = 2_000;

/** Milliseconds between two looks at a lock whose holder keeps no connection open. */
const PAUSE = 1_000;

/** Milliseconds until the kernel is asked for connections again, after it had no descriptor free. */
const ACCEPT_PAUSE = 100;

/** The lock of the network namespace that this process is in. */
export class AbstractSocketLock implements NodeLock {
  #isHeld = false;

  /** @inheritdoc */
  async take(self: LockHolder): Promise<LockRefusal | undefined> {
    if (this.#isHeld) return undefined;
    try {
      const listener = Deno.listen({ transport: "unix", path: PATH });
      listener.unref();
      this.#isHeld = true;
      void answer(listener, new TextEncoder().encode(`${JSON.stringify(self)}\n`));
      return undefined;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
      return await askHolder();
    }
  }
}

/** Tells everyone who holds the lock. */
async function answer(listener: Deno.Listener, line: Uint8Array<ArrayBuffer>): Promise<void> {
  const waiting = new Set<Deno.Conn>();
  for await (const connection of connections(listener)) {
    void tell(connection, line).then((isOpen) => {
      if (!isOpen || waiting.size >= MAX_WAITING) return tryToClose(connection);
      waiting.add(connection);
      void connection.read(new Uint8Array(1)).catch(() => null).then(() => {
        waiting.delete(connection);
        tryToClose(connection);
      });
    });
  }
}

/** Those that come: that no descriptor is free passes. */
async function* connections(listener: Deno.Listener): AsyncGenerator<Deno.Conn> {
  for (;;) {
    try {
      yield await listener.accept();
    } catch {
      await new Promise<void>((resolve) => Deno.unrefTimer(setTimeout(resolve, ACCEPT_PAUSE)));
    }
  }
}

async function tell(connection: Deno.Conn, line: Uint8Array<ArrayBuffer>): Promise<boolean> {
  try {
    return await connection.write(line) === line.length;
  } catch {
    return false;
  }
}

async function askHolder(): Promise<LockRefusal> {
  let connection: Deno.Conn;
  try {
    connection = await Deno.connect({ transport: "unix", path: PATH });
  } catch {
    // It ended just now, or is not listening.
    return { holder: undefined, released: sleep };
  }
  const timer = setTimeout(() => tryToClose(connection), TIMEOUT);
  const holder = await readHolder(connection);
  clearTimeout(timer);
  if (!holder) tryToClose(connection);
  return { holder, released: (signal) => holder ? ended(connection, signal) : sleep(signal) };
}

async function readHolder(connection: Deno.Conn): Promise<LockHolder | undefined> {
  const buffer = new Uint8Array(1_024);
  try {
    const length = await connection.read(buffer) ?? 0;
    return parseHolder(new TextDecoder().decode(buffer.subarray(0, length)));
  } catch {
    return undefined;
  }
}

/** Any process of the namespace may hold the name: what it says is checked. */
export function parseHolder(line: string): LockHolder | undefined {
  try {
    const { pid, version, since } = JSON.parse(line) as Record<string, unknown>;
    if (!Number.isSafeInteger(pid) || typeof pid !== "number") return undefined;
    if (typeof version !== "string" || !/^[\w.+-]{1,64}$/.test(version)) return undefined;
    if (typeof since !== "string" || !/^[\dTZ:.-]{1,32}$/.test(since)) return undefined;
    return { pid, version, since };
  } catch {
    return undefined;
  }
}

/** The holder sends nothing more: what ends the reading is its end. */
async function ended(connection: Deno.Conn, signal: AbortSignal): Promise<void> {
  const stop = () => tryToClose(connection);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  const read = await connection.read(new Uint8Array(1)).catch(() => null);
  signal.removeEventListener("abort", stop);
  tryToClose(connection);
  // Where there are too many who wait, the holder has closed the connection, and is still there.
  if (read === null) await sleep(signal);
}

function sleep(signal: AbortSignal): Promise<void> {
  return new SystemClock().sleep(PAUSE, signal);
}
