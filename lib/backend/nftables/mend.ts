/**
 * Turns the differences of a table into the change that removes them.
 *
 * @module
 */
import type { Difference } from "../../model/kernel/differences.ts";
import { parsePlace, type Place } from "./compare.ts";
import { type Delta, NOTHING } from "./delta.ts";
import { parseKey } from "./keys.ts";
import { type Contents, elementKey } from "./read.ts";
import { setNamed, type TableSet } from "./sets.ts";
import { type Chain, type ChainRewrite, type Element, elementsOf, type Table } from "./table.ts";

/** The limit of differences that parts mend. More is written anew, in pieces. */
export const MAX_MENDED = 10_000;

/** Inputs of `mend`. */
export interface MendOptions {
  readonly desired: Omit<Table, "references">;
  readonly held: Contents;
  /** The differences, slots to the number. */
  readonly differences: readonly Difference[];
  /** @default `MAX_MENDED` */
  readonly most?: number;
}

/**
 * Returns the change that leaves none of the differences. Chains whose rules differ are written again; all other
 * objects keep their handles, times and counters.
 *
 * @returns `undefined` if parts do not suffice: hooks of chains that have none, declarations, flags and
 *   other objects of the table, names and keys that are not plain, and more than `most` differences
 */
export function mend(
  { desired, held, differences, most = MAX_MENDED }: MendOptions,
): Delta | undefined {
  if (differences.length > most) return undefined;
  const collector = new Collector(held, new Map(desired.chains.map((each) => [each.name, each])));
  for (const difference of differences) {
    if (!collector.take(difference)) return undefined;
  }
  return collector.finish(desired);
}

/** Other programs choose these names, and they become commands. */
const PLAIN_NAME = /^[A-Za-z_][\w./-]*$/;
const PLAIN_KEY = /^[\w.:/]+(?:(?: \. |-)[\w.:/]+)*$/;

function isPlain(place: Place, { type, key }: Difference): boolean {
  if (!PLAIN_NAME.test(place.name)) return false;
  return key === "" || type === "missing" || place.type === "chain" || PLAIN_KEY.test(key);
}

/** Gathers the changes, object by object. */
class Collector {
  readonly #held: Contents;
  readonly #chains: ReadonlyMap<string, Chain>;
  readonly #addChains = new Map<string, Chain>();
  readonly #rewriteChains = new Map<string, ChainRewrite>();
  readonly #deleteChains = new Map<string, Chain>();
  readonly #addSets = new Set<string>();
  readonly #deleteSets: Pick<TableSet, "kind" | "name">[] = [];
  readonly #deleteElements: Element[] = [];
  /** The keys of elements to add, by set. */
  readonly #addElements = new Map<string, Set<string>>();

  constructor(held: Contents, chains: ReadonlyMap<string, Chain>) {
    this.#held = held;
    this.#chains = chains;
  }

  /** @returns true if parts can mend the difference */
  take(difference: Difference): boolean {
    const place = parsePlace(difference.in);
    if (!isPlain(place, difference)) return false;
    if (place.type === "chain") return this.#takeChain(place.name, difference);
    return difference.key === "" ? this.#takeSet(difference) : this.#takeElement(difference);
  }

  #takeChain(name: string, { type, key }: Difference): boolean {
    const chain = this.#chains.get(name);
    if (chain === undefined) {
      // Its rules go first: one such chain may lead to another.
      const extra: Chain = { type: "chain", role: "frontend", name, rules: [] };
      this.#rewriteChains.set(name, { before: extra, after: extra });
      this.#deleteChains.set(name, extra);
    } else if (type === "missing" && key === "") {
      this.#addChains.set(name, chain);
    } else {
      const { hook, ...unhooked } = chain;
      // Other chains lead to one without a hook, so it cannot be deleted.
      if (isHook(key) && hook === undefined) return false;
      const before = isHook(key) ? unhooked : this.#rewriteChains.get(name)?.before ?? chain;
      this.#rewriteChains.set(name, { before, after: chain });
    }
    return true;
  }

  #takeSet({ type, in: name }: Difference): boolean {
    if (type === "wrong") return false;
    if (type === "missing") {
      this.#addSets.add(name);
      return true;
    }
    const declared = this.#held.declarations.get(name) ?? "";
    const kind = (["map", "flowtable"] as const).find((each) => declared.startsWith(each)) ?? "set";
    this.#deleteSets.push({ kind, name });
    return true;
  }

  #takeElement({ type, in: name, key: text }: Difference): boolean {
    const set = setNamed(name);
    if (set === undefined) return false;
    if (type !== "extra") {
      const keys = this.#addElements.get(name) ?? new Set();
      this.#addElements.set(name, keys.add(text));
    }
    if (type !== "missing") {
      const key = parseKey(set, text) ?? { type: "foreign", text };
      this.#deleteElements.push({ type: "element", set, key, data: "", comment: "" });
    }
    return true;
  }

  finish({ sets, elements }: MendOptions["desired"]): Delta {
    return {
      ...NOTHING,
      addSets: sets.filter(({ name }) => this.#addSets.has(name)),
      addChains: [...this.#addChains.values()],
      rewriteChains: [...this.#rewriteChains.values()],
      deleteElements: this.#deleteElements,
      addElements: [...elementsOf(elements)].filter((element) =>
        this.#addSets.has(element.set.name) ||
        this.#addElements.get(element.set.name)?.has(elementKey(element))
      ),
      deleteChains: [...this.#deleteChains.values()],
      deleteSets: this.#deleteSets,
    };
  }
}

/** Returns true if a rule is the hook of a base chain, see `hookRule`. */
function isHook(rule: string): boolean {
  return /^type \S+ hook /.test(rule);
}
