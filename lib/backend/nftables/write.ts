/** Makes scripts of changes, and gives large scripts to `nft` in portions. */
import type { Progress, Script } from "../../model/kernel/dataplane.ts";
import type { DesiredState } from "../../model/kernel/desired.ts";
import { atOnce, Turns } from "../../model/ports/in_turns.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { append, chunks } from "../../model/values/lists.ts";
import {
  countOperations,
  type Counts,
  type Delta,
  diffing,
  NOTHING,
  partsOf,
  sorted,
  tableOf,
  weightOf,
} from "./delta.ts";
import type { Nft } from "./nft.ts";
import { clientsIn, type Contents } from "./read.ts";
import { fixedChains, nodeElements } from "./layout.ts";
import type { Chain } from "./table.ts";
import { hasSourceRanges } from "./service.ts";
import { fixedSets, setNamed, type TableSet } from "./sets.ts";
import {
  CLOSE,
  lateCopy,
  OPEN,
  printingBlocks,
  printSet,
  printTable,
  renderDeletions,
  renderingDelta,
  REPLACE,
} from "./text.ts";

export interface PartialScript extends Script {
  readonly kind: "partial";
  /** The text, cut to transactions. */
  readonly transactions: readonly string[];
  readonly delta: Delta;
}

/** Renders a change in parts of `most` elements: nft takes 2 kB for each element of a transaction. */
export function* toPartialScript(
  delta: Delta,
  most: number,
): Generator<undefined, PartialScript> {
  const transactions: string[] = [];
  for (const part of partsOf(delta, most)) {
    append(transactions, yield* renderingDelta(part));
  }
  const text = transactions.join("");
  const operations = countOperations(delta);
  return { kind: "partial", transactions, text, bytes: text.length, operations, delta };
}

/** The weight of one portion: nft takes 53 MB for 25,000 elements. Larger portions are slower, and begin later. */
export const PORTION_WEIGHT = 25_000;

interface Measure {
  readonly weight: number;
  readonly hasAffinity: boolean;
  readonly hasRanges: boolean;
}

export class FullScript implements Script {
  readonly kind = "full";
  bytes = 0;
  operations = 0;
  /** The transaction after the last portion. */
  cleanup = "";

  constructor(readonly state: DesiredState) {}

  get text(): string {
    return printTable(atOnce(tableOf(this.state)));
  }

  measure(): Measure {
    let [weight, hasAffinity, hasRanges] = [0, false, false];
    for (const ports of this.state.services.values()) {
      weight += weightOf(ports);
      hasAffinity ||= ports.some((port) => port.affinitySeconds > 0);
      hasRanges ||= ports.some(hasSourceRanges);
    }
    return { weight, hasAffinity, hasRanges };
  }
}

interface Portion {
  readonly blocks: string;
  /** True if packets meet the table after this portion. */
  readonly isLast: boolean;
  /** The number of portions, which is an estimate by the number of Services until the last portion. */
  readonly of: number;
}

/**
 * Yields a table in portions, base chains last: until then, packets do not meet the table. Counts what is written.
 * The script's `cleanup` must follow.
 */
export function* portionsOf(
  script: FullScript,
  { most, counts }: { readonly most: number; readonly counts: Counts },
): Generator<Portion | undefined, void> {
  const { node, services } = script.state;
  script.bytes = REPLACE.length + CLOSE.length;
  script.operations = 0;
  const isBase = ({ hook }: Chain) => hook !== undefined;
  const isOther = (chain: Chain) => !isBase(chain);
  const fixed = fixedChains(node);
  const baseChains = fixed.filter(isBase);
  const declared = new Map<string, TableSet>();
  const printing = function* (delta: Delta) {
    counts.add(delta);
    for (const set of delta.addSets) declared.set(set.name, set);
    const { addSets: sets, addChains: chains, addElements: elements } = delta;
    const blocks = yield* printingBlocks({ sets, chains, elements }, declared);
    script.bytes += blocks.length;
    script.operations += countOperations(delta);
    return blocks;
  };
  let before = yield* printing({
    ...NOTHING,
    addSets: fixedSets(node),
    addChains: fixed.filter(isOther),
    addElements: nodeElements(node),
  });
  let [number, count] = [1, 0];
  for (const chunk of chunks(sorted(services), { weigh: weightOf, most })) {
    const changes = chunk.map((after) => ({ before: [], after }));
    const delta = yield* diffing(changes, { node, references: counts.references });
    append(baseChains, delta.addChains.filter(isBase));
    const blocks = yield* printing({ ...delta, addChains: delta.addChains.filter(isOther) });
    count += chunk.length;
    const of = 1 + Math.max(number, Math.ceil(number * services.size / count));
    yield { blocks: before + blocks, isLast: false, of };
    before = "";
    number++;
  }
  const blocks = yield* printing({ ...NOTHING, addChains: baseChains });
  const late = baseChains.map(lateCopy);
  const copies = yield* printingBlocks({ sets: [], chains: late, elements: [] }, declared);
  script.bytes += copies.length;
  script.cleanup = renderDeletions(late);
  yield { blocks: before + blocks + copies, isLast: true, of: number };
}

/** The weight of a piece of a transaction. nft reads a piece while signpost makes the next piece. */
const PIECE_WEIGHT = 500;

/** Yields the transaction that replaces the table, in pieces. @param options `clients`: the old table's sets */
export function* replacing(
  script: FullScript,
  { prologue, clients, counts }: {
    readonly prologue: string;
    readonly clients: Contents;
    readonly counts: Counts;
  },
): Generator<string, void> {
  yield prologue + REPLACE;
  for (const portion of portionsOf(script, { most: PIECE_WEIGHT, counts })) {
    if (portion) yield portion.blocks;
  }
  const sets = [...counts.rules.keys()].flatMap((name) => setNamed(name) ?? [])
    .filter(({ role }) => role === "affinityClients");
  yield sets.map((set) => printClients(set, clients)).join("") + CLOSE;
}

/** Returns the block that puts clients of session affinity into a set; `""` without clients. */
export function printClients(set: TableSet, clients: Contents): string {
  const entries = clientsIn(clients, set.name).map(({ address, timeoutSeconds, expiresSeconds }) =>
    `      ${address} timeout ${timeoutSeconds}s expires ${expiresSeconds}s`
  );
  return entries.length === 0 ? "" : printSet(set, entries);
}

export interface PortionsOptions {
  readonly nft: Pick<Nft, "commitAfter">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly logger: Pick<Logger, "info">;
  readonly weight: number;
  readonly counts: Counts;
  /** Returns commands for the beginning of the last transaction: packets meet the table from then on. */
  readonly prologue: () => Promise<string>;
  readonly onProgress: (progress: Progress) => void;
  /** Called after a set was read, or nft has taken a part. An error that it throws ends the work. */
  readonly checkpoint: () => void;
}

/** Milliseconds after which the log says, once, that the rules are still being written. */
const LONG = 10_000;

/**
 * Writes a large table that packets do not meet yet. Each portion has its own nft, whose memory ends with it. A single
 * transaction would take 2 kB for each element, and twice the time.
 */
export async function writePortions(
  script: FullScript,
  { nft, clock, logger, weight, counts, prologue, onProgress, checkpoint }: PortionsOptions,
): Promise<void> {
  const started = clock.monotonic();
  let [of, done, isLogged] = [0, 0, false];
  const write = async (text: string, isLast: boolean, previous: Promise<void>) => {
    const head = isLast ? await prologue() : "";
    await nft.commitAfter(previous, head + text);
    onProgress({ done: ++done, of });
    checkpoint();
    if (isLogged || isLast || clock.monotonic() - started < LONG) return;
    isLogged = true;
    logger.info("the rules are written in portions; packets meet them after the last portion", {
      portions: `${done} of ${of}`,
    });
  };
  const overlap = new Overlap();
  const turns = new Turns(clock);
  for (const portion of portionsOf(script, { most: weight, counts })) {
    if (portion === undefined) {
      // An await for each element takes a tenth of a first sync.
      if (turns.isOver) await turns.yieldIfDue();
      continue;
    }
    const { blocks, isLast } = portion;
    const text = `${of === 0 ? REPLACE : OPEN}${blocks}${CLOSE}`;
    if (of === 0) onProgress({ done, of: portion.of });
    of = portion.of;
    await overlap.begin((previous) => write(text, isLast, previous));
  }
  await overlap.end();
}

/** Runs two steps at once: nft reads a transaction, half of its work, while the kernel applies the previous. */
export class Overlap {
  #previous = Promise.resolve();
  #last = Promise.resolve();

  /** Begins a step, which gets the end of the previous step. A failure is thrown two steps later, or at `end`. */
  async begin(step: (previous: Promise<void>) => Promise<void>): Promise<void> {
    await this.#previous;
    [this.#previous, this.#last] = [this.#last, step(this.#last)];
    this.#last.catch(() => {});
  }

  async end(): Promise<void> {
    await this.#previous;
    await this.#last;
  }
}
