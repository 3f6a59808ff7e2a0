/**
 * Takes the events of the sources into the cache, but for the time in which Services are worked out of it.
 *
 * @module
 */
import type { ObjectCache } from "../cache/cache.ts";
import type { ObjectEvent, Refusal } from "../model/cluster/objects.ts";
import { Turns } from "../model/ports/in_turns.ts";
import type { Clock } from "../model/ports/ports.ts";

/** What takes events, and hears of it. */
export interface IntakeOptions {
  readonly cache: Pick<ObjectCache, "applying">;
  readonly clock: Clock;
  /** Called when the cache has taken an event in. */
  readonly onTaken: (refusals: readonly Refusal[]) => void;
}

/** The way into the cache. What comes while it is closed, or while it takes many objects in, waits. */
export class Intake {
  readonly #options: IntakeOptions;
  /** What waits; `undefined`: nothing has to. */
  #held: (() => void)[] | undefined;
  /** The cache takes many objects in. */
  #filling: Promise<void> | undefined;

  /** @param options what takes events, and hears of it */
  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  /** Takes an event in, many objects in turns. */
  handle(event: ObjectEvent): void {
    if (this.#held) return void this.#held.push(() => this.handle(event));
    const { cache, clock, onTaken } = this.#options;
    const taking = cache.applying(event);
    const { done, value } = taking.next();
    if (done) return onTaken(value);
    this.#held = [];
    this.#filling = new Turns(clock).run(taking).then((refusals) => {
      this.#filling = undefined;
      onTaken(refusals);
      this.open();
    });
  }

  /** Does something in its turn: where events wait, after those that came before. */
  inTurn(action: () => void): void {
    if (this.#held) this.#held.push(action);
    else action();
  }

  /** Has the cache stay as it is, once what is under way has been taken in. */
  async close(): Promise<void> {
    while (this.#filling) await this.#filling;
    this.#held ??= [];
  }

  /** Takes in what has waited, and what comes; where the cache takes many objects in, after that. */
  open(): void {
    if (this.#filling) return;
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const take of held) take();
  }
}
