/**
 * Services in the order of their names, some of which may still have to be worked out.
 *
 * @module
 */
import type {
  DesiredServicePort,
  DesiredState,
  StreamedState,
} from "../../../model/kernel/desired.ts";
import { sortingByKey } from "../../../model/ports/in_turns.ts";
import { weightOf } from "./weight.ts";

/** The ports of one Service. */
export type ServicePorts = readonly DesiredServicePort[];

/** Some Services that go into a script together. */
export interface Batch {
  readonly services: readonly ServicePorts[];
  /** By `weightOf`. */
  readonly weight: number;
}

/** Services whose part is worked out at one go. */
const BATCH = 16;
/** The same for Services with many elements, by `weightOf`. */
const BATCH_WEIGHT = 250;

/** The Services of a state, each read of the stream when it is first asked for. */
export class InOrder {
  readonly #known: ServicePorts[] = [];
  readonly #rest: StreamedState["services"];
  /** How many there are, and will be. */
  readonly size: number;

  /** @param services of a stream, or of a complete state: what becomes of that later does not count */
  constructor(services: Pick<StreamedState, "services" | "size"> | DesiredState["services"]) {
    this.size = services.size;
    this.#rest = "services" in services ? services.services : sorted([...services]);
  }

  /**
   * Each of them. May be asked for at any time, from the beginning each time.
   *
   * @yields `undefined` where other work can be done
   */
  *all(): Generator<ServicePorts | undefined, void> {
    for (let i = 0;;) {
      const known = this.#known[i] ?? this.#next();
      if (known === "end") return;
      if (known) i++;
      yield known;
    }
  }

  /**
   * The same, several of them together.
   *
   * @param most a batch ends where it weighs as much
   */
  *batches(most = BATCH_WEIGHT): Generator<Batch | undefined, void> {
    let services: ServicePorts[] = [];
    let weight = 0;
    for (const ports of this.all()) {
      if (ports === undefined) {
        yield undefined;
        continue;
      }
      services.push(ports);
      weight += weightOf(ports);
      if (services.length < BATCH && weight < Math.min(most, BATCH_WEIGHT)) continue;
      yield { services, weight };
      [services, weight] = [[], 0];
    }
    if (services.length > 0) yield { services, weight };
  }

  #next(): ServicePorts | "end" | undefined {
    const { done, value } = this.#rest.next();
    if (done) return "end";
    if (value) this.#known.push(value);
    return value;
  }
}

function* sorted(
  byName: readonly (readonly [string, ServicePorts])[],
): Generator<ServicePorts | undefined, void> {
  for (const named of sortingByKey(byName)) yield named?.[1];
}
