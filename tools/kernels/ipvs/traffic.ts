/**
 * Sends traffic while one proxy takes over from another: new connections that must be
 * answered, others that must not be, and connections that stay.
 *
 * @module
 */
import type { Family } from "../../../lib/model/values/address.ts";
import type { Network } from "../../../tests/support/network.ts";
import type { LongConnection } from "../../../tests/support/traffic.ts";
import { isNoAnswer } from "./findings.ts";
import { OWN_PORT, PLACES, probe, type Target, targetsOf } from "./probes.ts";

/** One connection that is tried again and again. */
interface Attempt {
  readonly from: typeof PLACES[number];
  readonly target: Target;
  readonly protocol: "tcp" | "udp";
}

/** Connections that are tried together. */
interface Kind {
  readonly protocols: readonly ("tcp" | "udp")[];
  readonly selects: (target: Target) => boolean;
  /** Returns true if the outcome is allowed. */
  readonly isRight: (word: string) => boolean;
  /** Milliseconds that one may take: in a slow machine that is no loss. */
  readonly patience: number;
}

const PATIENCE = 30_000;

const KINDS = {
  /** Services that have endpoints. */
  served: {
    protocols: ["tcp", "udp"],
    selects: ({ isServed }) => isServed,
    isRight: (word) => word === "endpoint",
    patience: PATIENCE,
  },
  /** Frontends that kube-proxy served, and that the API server has no more. */
  stale: {
    protocols: ["tcp", "udp"],
    selects: ({ isServed, port }) => !isServed && port !== OWN_PORT,
    isRight: isNoAnswer,
    patience: 8_000,
  },
  /** Virtual IPs with the port of a program of the node's. */
  own: {
    protocols: ["tcp"],
    selects: ({ port }) => port === OWN_PORT,
    isRight: isNoAnswer,
    patience: 8_000,
  },
} as const satisfies Record<string, Kind>;

/** Connections under way at most. */
const IN_FLIGHT = 6;

/** Connections at a steady rate, all attempts in turn. */
export class Steady implements AsyncDisposable {
  readonly #network: Network;
  readonly #kind: Kind;
  readonly #attempts: readonly Attempt[];
  /** When each went wrong, in seconds. */
  readonly #wrong = new Map<string, number[]>();
  readonly #pending = new Set<Promise<void>>();
  readonly #started = performance.now();
  readonly #timer: ReturnType<typeof setInterval>;
  #due = this.#started;
  #next = 0;
  #count = 0;

  /** @param options.rate a second; a busy machine gets fewer */
  constructor(network: Network, options: {
    readonly families: readonly Family[];
    readonly kind: keyof typeof KINDS;
    readonly rate: number;
  }) {
    this.#network = network;
    this.#kind = KINDS[options.kind];
    this.#attempts = attempts(options.families, this.#kind);
    this.#timer = setInterval(() => this.#openDue(1000 / options.rate), 2);
  }

  /** Ends it. @returns how many there were, at which rate, and what went wrong */
  async stop(): Promise<{
    readonly text: string;
    readonly rate: number;
    readonly wrong: readonly string[];
  }> {
    const seconds = (performance.now() - this.#started) / 1000;
    await this[Symbol.asyncDispose]();
    const rate = Math.round(this.#count / seconds);
    const wrong = [...this.#wrong].map(([what, times]) => `${what} (after ${times.join(", ")} s)`);
    const lost = this.#wrong.values().reduce((sum, times) => sum + times.length, 0);
    return {
      text: `${this.#count} in ${Math.round(seconds)} s (${rate}/s), ${lost} wrong`,
      rate,
      wrong,
    };
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
    const pending: Promise<void> = probe(this.#network, {
      ...attempt,
      timeout: this.#kind.patience,
    })
      .catch(String)
      .then((word) => {
        this.#count++;
        if (this.#kind.isRight(word)) return;
        const what = `${protocol} from ${from} to ${target.what} (${target.address}): ${word}`;
        const seconds = Math.round((performance.now() - this.#started) / 100) / 10;
        this.#wrong.set(what, [...this.#wrong.get(what) ?? [], seconds]);
      })
      .finally(() => this.#pending.delete(pending));
    this.#pending.add(pending);
  }
}

function attempts(
  families: readonly Family[],
  { selects, protocols }: Pick<Kind, "selects" | "protocols">,
): Attempt[] {
  return families.flatMap(targetsOf).filter(selects).flatMap((target) =>
    protocols.flatMap((protocol) => PLACES.map((from) => ({ from, target, protocol })))
  );
}

/** TCP connections that stay open, from each place to each served target. */
export async function openLong(
  network: Network,
  families: readonly Family[],
): Promise<readonly { readonly name: string; readonly connection: LongConnection }[]> {
  const long = [];
  for (const { from, target } of attempts(families, { ...KINDS.served, protocols: ["tcp"] })) {
    const { address, port, what } = target;
    const connection = await network.stay({ from, address, port, timeout: PATIENCE });
    long.push({ name: `from ${from} to ${what} (${address})`, connection });
  }
  return long;
}

/** Returns the connections that answer no more. */
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
