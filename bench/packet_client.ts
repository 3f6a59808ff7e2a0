/**
 * Opens connections one after the other for a time, as a process of its own in the namespace of a
 * pod. Arguments: address, port, milliseconds. Prints one line of JSON.
 *
 * @module
 */
import { ipv4, Libc } from "./libc.ts";
import { quantile } from "./statistics.ts";

/** The result of a round of connections. */
export interface Round {
  /** Established connections in a second. */
  readonly perSecond: number;
  /** Microseconds from the first packet to its answer: the first one through new rules, p50, p99. */
  readonly first: number;
  readonly p50: number;
  readonly p99: number;
}

function connectFor(address: string, port: number, milliseconds: number): Round {
  const libc = new Libc();
  const name = ipv4(address, port);
  const times: number[] = [];
  const begin = performance.now();
  let end = begin;
  while (end - begin < milliseconds) {
    const start = performance.now();
    const socket = libc.connect(name);
    end = performance.now();
    libc.reset(socket);
    times.push((end - start) * 1000);
  }
  return {
    perSecond: times.length / ((end - begin) / 1000),
    first: times[0] ?? NaN,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
  };
}

if (import.meta.main) {
  const [address = "", port, milliseconds] = Deno.args;
  const round = connectFor(address, Number(port), Number(milliseconds));
  await Deno.stdout.write(new TextEncoder().encode(`${JSON.stringify(round)}\n`));
}
