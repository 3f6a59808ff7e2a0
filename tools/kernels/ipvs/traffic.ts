/**
 * What goes on all the time while one proxy takes over from another: new connections that must be
 * answered, others that must not be, and connections that stay.
 *
 * @module
 */
import type { Family } from "../../../lib/model/values/address.ts";
import type { Network } from "../../../tests/support/network.ts";
import type { LongConnection } from "../../../tests/support/traffic.ts";
import { PLACES, probe, type Target, targetsOf } from "./probes.ts";

/** One connection that is tried again and again. */
interface Attempt {
  readonly from: typeof PLACES[number];
  readonly target: Target;
  readonly protocol: "tcp" | "udp";
}

/** Connections under way at most. */
const IN_FLIGHT = 3;
/** Milliseconds that one may take: in a slow machine that is no loss. */
const PATIENCE = 30_000;

/** Connections at a steady rate, all attempts in turn. */
export class Steady implements AsyncDisposable {
  readonly #network: Network;
  readonly #attempts: readonly Attempt[];
  readonly #isRight: (word: string) => boolean;
  readonly #wrong = new Map<string, number>();
  readonly #pending = new Set<Promise<void>>();
  readonly #started = performance.now();
  readonly #timer: ReturnType<typeof setInterval>;
  #due: number;
  #next = 0;
  #count = 0;

  /**
   * @param options.rate a second; a busy machine gets fewer
   * @param options.isRight what may come of a connection
   */
  constructor(network: Network, options: {
    readonly attempts: readonly Attempt[];
    readonly rate: number;
    readonly isRight: (word: string) => boolean;
  }) {
    this.#network = network;
    this.#attempts = options.attempts;
    this.#isRight = options.isRight;
    this.#due = this.#started;
    this.#timer = setInterval(() => this.#openDue(1000 / options.rate), 2);
  }

  /** Ends it. @returns how many there were, at which rate, and what went wrong */
  async stop(): Promise<{ readonly text: string; readonly wrong: readonly string[] }> {
    const seconds = (performance.now() - this.#started) / 1000;
    await this[Symbol.asyncDispose]();
    const rate = Math.round(this.#count / seconds);
    const wrong = [...this.#wrong].map(([what, count]) => `${what}: ${count} times`);
    return { text: `${this.#count} connections in ${Math.round(seconds)} s (${rate}/s)`, wrong };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#pending);
  }

  #openDue(gap: number): void {
    const now = performance.now();
    for (; this.#due <= now && this.#pending.size < IN_FLIGHT; this.#due += gap) {
      const attempt = this.#attempts[this.#next++ % this.#attempts.length];
      if (attempt) this.#open(attempt);
    }
    this.#due = Math.max(this.#due, now);
  }

  #open(attempt: Attempt): void {
    const { from, target, protocol } = attempt;
    const pending: Promise<void> = probe(this.#network, { ...attempt, timeout: PATIENCE })
      .catch(String)
      .then((word) => {
        this.#count++;
        if (this.#isRight(word)) return;
        const what = `${protocol} from ${from} to ${target.what} (${target.address}): ${word}`;
        this.#wrong.set(what, (this.#wrong.get(what) ?? 0) + 1);
      })
      .finally(() => this.#pending.delete(pending));
    this.#pending.add(pending);
  }
}

/** Attempts from all places to the targets of all families that are selected. */
export function attempts(
  families: readonly Family[],
  options: {
    readonly select: (target: Target) => boolean;
    readonly protocols: readonly ("tcp" | "udp")[];
  },
): Attempt[] {
  return families.flatMap(targetsOf).filter(options.select).flatMap((target) =>
    options.protocols.flatMap((protocol) => PLACES.map((from) => ({ from, target, protocol })))
  );
}

/** TCP connections that stay open, from each place to each served target. */
export async function openLong(
  network: Network,
  families: readonly Family[],
): Promise<readonly { readonly name: string; readonly connection: LongConnection }[]> {
  const long = [];
  for (
    const { from, target } of attempts(families, {
      select: ({ isServed }) => isServed,
      protocols: ["tcp"],
    })
  ) {
    const { address, port, what } = target;
    const connection = await network.stay({ from, address, port, timeout: PATIENCE });
    long.push({ name: `from ${from} to ${what} (${address})`, connection });
  }
  return long;
}

/** Those that answer no more. */
export async function findBroken(
  long: Awaited<ReturnType<typeof openLong>>,
): Promise<readonly string[]> {
  const broken = await Promise.all(long.map(async ({ name, connection }) => {
    const line = `still there ${crypto.randomUUID()}`;
    // A socket that was reset is closed, and says so at once.
    const echo = await Promise.try(() => connection.exchange(line)).catch(String);
    return echo === line ? [] : [`${name}: ${echo}`];
  }));
  return broken.flat();
}
