/**
 * Looks for deleted elements of a table that is too large for `nft monitor`: some Services at a
 * time, all of them in turns.
 *
 * nft reads the whole table to list any of its elements. But the kernel can check a transaction
 * that would delete them, without doing it (nft(8), `--check`): it fails where one is not there.
 *
 * @module
 */
import { ApplyError } from "../../../model/dataplane.ts";
import type { DesiredState } from "../../../model/desired.ts";
import type { Clock } from "../../../model/ports.ts";
import type { NftablesDataplane } from "../dataplane.ts";
import type { Nft } from "../kernel/nft.ts";

/** What the check works with. */
export interface ElementCheckOptions {
  readonly nft: Pick<Nft, "check">;
  readonly dataplane: Pick<NftablesDataplane, "presence" | "steps" | "isBusy">;
  /** The state that the dataplane holds the kernel to. */
  readonly desired: DesiredState;
  readonly clock: Clock;
}

/** Services of one look: some 2,000 elements, 15 ms of work. */
const SERVICES = 200;
const TRIES = 3;
/** Milliseconds between two tries: a sync came between. */
const PAUSE = 100;

/** Goes round all Services, look by look. */
export class ElementCheck {
  readonly #options: ElementCheckOptions;
  #round: Iterator<string> | undefined;

  /** @param options what to look at, and with what */
  constructor(options: ElementCheckOptions) {
    this.#options = options;
  }

  /** Looks at the next Services. @returns what is missing, in words; `undefined`: nothing is */
  async look(): Promise<string | undefined> {
    const { dataplane, desired, clock, nft } = this.#options;
    const names = this.#next();
    for (let tries = 0; tries < TRIES; tries++) {
      const { steps } = dataplane;
      if (!dataplane.isBusy) {
        const services = names.map((name) => desired.services.get(name) ?? []);
        const script = dataplane.presence(services, desired.node);
        if (script === "" || await holds(nft, script)) return undefined;
        // Where a sync came between, the kernel may have been a step ahead.
        if (dataplane.steps === steps) return `elements of ${names[0]} to ${names.at(-1)}`;
      }
      await clock.sleep(PAUSE);
    }
    return undefined;
  }

  #next(): readonly string[] {
    this.#round ??= this.#options.desired.services.keys();
    const names: string[] = [];
    while (names.length < SERVICES) {
      const { done, value } = this.#round.next();
      if (done) {
        this.#round = undefined;
        break;
      }
      names.push(value);
    }
    return names;
  }
}

/** Whether the kernel has everything that the script deletes. What else may fail says nothing. */
async function holds(nft: Pick<Nft, "check">, script: string): Promise<boolean> {
  try {
    await nft.check(script);
    return true;
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    return error.failure !== "conflict";
  }
}
