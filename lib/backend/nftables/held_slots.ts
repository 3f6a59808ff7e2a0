/**
 * Finds out how many slots frontends have in a large table, whose slots are not read: the chain that a frontend
 * leads to tells it.
 *
 * @module
 */
import type { Contents } from "./kernel/contents.ts";
import { type FrontendKey, parseKey } from "./script/keys.ts";
import { elementId } from "./script/objects.ts";
import { setNamed, type TableSet } from "./script/sets.ts";

/** The slots that the kernel has of a frontend in a map. */
export interface HeldSlots {
  readonly set: TableSet;
  readonly key: FrontendKey;
  readonly count: number;
}

/** Finds frontends that lead to other slots than they should. */
export class HeldSlotsFinder {
  readonly #before: Choices;
  readonly #after: Choices;
  /** By `elementId`, what they have now. */
  readonly found = new Map<string, HeldSlots>();

  /** @param chains by name, their rules: those that the kernel has, and those that it should have */
  constructor(
    { held, wanted }: { readonly held: Contents["chains"]; readonly wanted: Contents["chains"] },
  ) {
    this.#before = new Choices(held);
    this.#after = new Choices(wanted);
  }

  /**
   * Looks at an element of a set; those that lead to no slots are passed over.
   *
   * @param text its key, as listings have it
   * @param verdicts what it leads to, and what it should lead to; `""`: nothing
   */
  take(
    frontends: TableSet,
    text: string,
    verdicts: { readonly was: string; readonly is: string },
  ): void {
    if (!leadsToSlots(frontends)) return;
    const was = this.#before.behind(verdicts.was);
    const is = this.#after.behind(verdicts.is);
    if (was === is || [...was, ...is].every(([map]) => was.get(map) === is.get(map))) return;
    const key = parseKey(frontends, text);
    if (key?.type !== "frontend") return;
    for (const map of new Set([...was.keys(), ...is.keys()])) {
      const set = setNamed(map);
      if (set?.keyType !== "slot") continue;
      const id = elementId({ type: "slots", set, key });
      const count = Math.max(was.get(map) ?? 0, this.found.get(id)?.count ?? 0);
      this.found.set(id, { set, key, count });
    }
  }
}

/** Whether a map leads frontends to chains that choose slots. */
export function leadsToSlots({ role }: Pick<TableSet, "role">): boolean {
  return role === "services" || role === "shortCircuits";
}

/** A rule that chooses one of so many slots in a map. */
const CHOICE = / mod (\d+)\b.* map @(\S+)/;
const NEXT = /\b(?:goto|jump) (\S+)/;

/** Another program's rule may name any number. */
const MOST_SLOTS = 100_000;

/** From how many slots of which maps the chains of a table choose. */
class Choices {
  readonly #chains: Contents["chains"];
  readonly #known = new Map<string, Map<string, number>>();

  constructor(chains: Contents["chains"]) {
    this.#chains = chains;
  }

  /** By map, the number of slots that a rule leads to, or a verdict. */
  behind(rule: string): ReadonlyMap<string, number> {
    const known = this.#known.get(rule);
    if (known) return known;
    const counts = new Map<string, number>();
    this.#known.set(rule, counts);
    const add = (map: string, count: number) =>
      counts.set(map, Math.max(count, counts.get(map) ?? 0));
    const [, count, map] = CHOICE.exec(rule) ?? [];
    if (count !== undefined && map !== undefined) add(map, Math.min(Number(count), MOST_SLOTS));
    const [, chain = ""] = NEXT.exec(rule) ?? [];
    for (const each of this.#chains.get(chain) ?? []) {
      for (const [map, count] of this.behind(each)) add(map, count);
    }
    return counts;
  }
}
