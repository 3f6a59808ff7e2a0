/** Clients that never stop: new connections at a steady rate, while something else goes on. */
import { AssertionError } from "@std/assert";
import type { ConnectRequest, Network } from "../support/network.ts";
import type { Outcome } from "../support/traffic.ts";

/** Connects to one destination so many times a second, whatever becomes of the connections. */
export class SteadyClient {
  readonly #network: Network;
  readonly #request: ConnectRequest;
  readonly #started = performance.now();
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #pending = new Set<Promise<void>>();
  readonly #counts = new Map<string, number>();
  #opened = 0;

  /** @param perSecond connections a second; those that a busy machine misses are made up for */
  constructor(network: Network, request: Omit<ConnectRequest, "times">, perSecond = 50) {
    this.#network = network;
    this.#request = { timeout: PATIENCE, ...request };
    this.#timer = setInterval(() => {
      const due = (performance.now() - this.#started) / 1000 * perSecond;
      while (this.#opened < due) this.#open();
    }, TICK);
  }

  /** Connections so far. */
  get opened(): number {
    return this.#opened;
  }

  /**
   * Ends it, and waits for what is under way.
   *
   * @returns the number of connections, all of which were answered
   * @throws {AssertionError} where some were not
   */
  async stop(): Promise<number> {
    clearInterval(this.#timer);
    await Promise.all(this.#pending);
    const failed = [...this.#counts].filter(([what]) => what !== "answer");
    if (failed.length > 0) {
      const { protocol = "tcp", address, port } = this.#request;
      const counts = failed.map(([what, count]) => `${count} x ${what}`).join(", ");
      throw new AssertionError(`${protocol} ${address} port ${port}: ${counts} of ${this.#opened}`);
    }
    return this.#opened;
  }

  #open(): void {
    this.#opened++;
    const attempt = this.#network.connect(this.#request)
      .then((outcomes) => outcomes.forEach((outcome) => this.#count(nameOf(outcome))))
      .catch((error) => this.#count(String(error)));
    const pending: Promise<void> = attempt.finally(() => this.#pending.delete(pending));
    this.#pending.add(pending);
  }

  #count(what: string): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }
}

/** Milliseconds; an answer may take long on a busy machine. */
const PATIENCE = 10_000;
const TICK = 5;

/** An answer of `world` is none: the packet left the node untranslated. */
function nameOf(outcome: Outcome): string {
  if (outcome.type === "reject") return outcome.error;
  if (outcome.type === "drop") return "silence";
  return outcome.answer.host === "world" ? "untranslated" : "answer";
}
