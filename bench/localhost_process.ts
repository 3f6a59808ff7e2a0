/**
 * One of the three processes that measure listeners on loopback, in a namespace of its own. It prints lines of JSON
 * and runs until it is killed, but for the client.
 *
 * - `server PORT`: gives back what it gets, or swallows it if the first byte is 1
 * - `listeners COUNT`: opens listeners from port 20000 on, which lead to the server
 * - `client PORT BYTES`: sends so much, then makes exchanges of 100 bytes
 * - `holder PORT COUNT`: holds so many connections open that have had one exchange
 *
 * @module
 */
import { LocalhostListeners } from "../lib/localhost/listeners.ts";
import { SystemClock } from "../lib/system/clock.ts";
import { tcp } from "../lib/system/tcp.ts";
import { quantile } from "./statistics.ts";

/** The ports of the server and of the first listener. */
export const SERVER_PORT = 10_000;
export const FIRST_LISTENER = 20_000;

/** The results of the client. */
export interface Transfer {
  readonly megabytesPerSecond: number;
  /** Microseconds of an exchange of 100 bytes. */
  readonly p50: number;
  readonly p99: number;
}

const SWALLOW = 1;
const PIECE = 1_000_000;
const EXCHANGES = 5_000;

async function serve(): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: SERVER_PORT });
  await tell({ listening: true });
  for await (const connection of listener) void answer(connection).catch(() => {});
}

async function answer(connection: Deno.TcpConn): Promise<void> {
  connection.setNoDelay();
  const first = new Uint8Array(1);
  if (await connection.read(first) === null) return connection.close();
  const buffer = new Uint8Array(first[0] === SWALLOW ? PIECE : 4_096);
  for (let count; (count = await connection.read(buffer)) !== null;) {
    if (first[0] !== SWALLOW) await connection.write(buffer.subarray(0, count));
  }
  connection.close();
}

async function listen(count: number): Promise<void> {
  const clock = new SystemClock();
  const listeners = new LocalhostListeners({ tcp: tcp(), clock });
  const endpoints = [{ address: "127.0.0.1", port: SERVER_PORT, local: true, hairpin: false }];
  const ports = Array.from({ length: count }, (_, i) => {
    const port = FIRST_LISTENER + i;
    const servicePort = `bench/${i}:http`;
    return [servicePort, { servicePort, family: 4, port, endpoints, affinitySeconds: 0 }] as const;
  });
  const silent = { error() {}, warn() {}, info() {}, debug() {} };
  const began = performance.now();
  await listeners.sync(new Map(ports), silent);
  // Without a listener, nothing else keeps the process.
  setInterval(() => {}, 60_000);
  await tell({ milliseconds: performance.now() - began, listeners: listeners.listeners(4) });
}

async function measure(port: number, bytes: number): Promise<Transfer> {
  return { megabytesPerSecond: await send(port, bytes), ...await exchange(port) };
}

async function send(port: number, bytes: number): Promise<number> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const piece = new Uint8Array(PIECE).fill(SWALLOW);
  const began = performance.now();
  for (let sent = 0; sent < bytes;) sent += await connection.write(piece);
  await connection.closeWrite();
  // The server closes when it has read all.
  await connection.read(new Uint8Array(1));
  return bytes / 1000 / (performance.now() - began);
}

async function exchange(port: number): Promise<Pick<Transfer, "p50" | "p99">> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  connection.setNoDelay();
  await connection.write(new Uint8Array(1));
  const [message, buffer] = [new Uint8Array(100), new Uint8Array(100)];
  const times: number[] = [];
  for (let i = 0; i < EXCHANGES; i++) {
    const began = performance.now();
    await connection.write(message);
    for (let received = 0; received < message.length;) {
      received += await connection.read(buffer) ?? Infinity;
    }
    times.push((performance.now() - began) * 1000);
  }
  return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
}

async function hold(port: number, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    await connection.write(new Uint8Array(101));
    await connection.read(new Uint8Array(100));
  }
  await tell({ held: count });
}

async function tell(value: object): Promise<void> {
  await Deno.stdout.write(new TextEncoder().encode(`${JSON.stringify(value)}\n`));
}

if (import.meta.main) {
  const [role, first, second] = Deno.args;
  if (role === "server") await serve();
  else if (role === "listeners") await listen(Number(first));
  else if (role === "holder") await hold(Number(first), Number(second));
  else await tell(await measure(Number(first), Number(second)));
}
