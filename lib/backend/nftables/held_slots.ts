/**
 * Finds out how many slots frontends have in a large table, whose slots are not read: the chain that a frontend
 * leads to tells it.
 *
 * @module
 */
import { keysOfBoth } from "./kernel/compare.ts";
import type { Contents } from "./kernel/contents.ts";
import type { FrontendKey } from "./script/keys.ts";
import { elementId } from "./script/objects.ts";
import { frontendMap, parseKey, setNamed, type TableSet } from "./script/sets.ts";

/** The slots that the kernel has of a frontend in a map. */
export interface HeldSlots {
  readonly set: TableSet<"endpoints" | "localEndpoints">;
  readonly key: FrontendKey;
  readonly count: number;
}

/** Frontends that are looked at at one go. */
const BATCH = 100;

/** What leads to slots. */
type Leading = Pick<Contents, "sets" | "chains">;

/**
 * Finds frontends that lead to other slots than they should.
 *
 * @param found by `elementId`, what they have now: takes what is found
 * @param options maps that have all of a frontend, and all chains
 * @yields where other work can be done
 */
export function* findingHeldSlots(
  found: Map<string, HeldSlots>,
  { held, wanted }: { readonly held: Leading; readonly wanted: Leading },
): Generator<undefined, void> {
  const [before, after] = [new Choices(held), new Choices(wanted)];
  let sinceTurn = 0;
  for (const name of new Set([...wanted.sets.keys(), ...held.sets.keys()])) {
    const frontends = setNamed(name);
    if (!frontends || !leadsToSlots(frontends)) continue;
    const [there, desired] = [held, wanted].map((each) => each.sets.get(name));
    for (const text of keysOfBoth(there, desired)) {
      if (++sinceTurn % BATCH === 0) yield;
      const was = before.behind(verdictOf(held, frontends, text));
      const is = after.behind(verdictOf(wanted, frontends, text));
      if (was === is || [...was, ...is].every(([map]) => was.get(map) === is.get(map))) continue;
      const key = parseKey(frontends, text);
      if (key?.type !== "frontend") continue;
      for (const map of new Set([...was.keys(), ...is.keys()])) {
        const set = setNamed(map);
        if (!isOfSlots(set)) continue;
        const id = elementId({ type: "slots", set, key });
        const count = Math.max(was.get(map) ?? 0, found.get(id)?.count ?? 0);
        found.set(id, { set, key, count });
      }
    }
  }
}

/** Whether a map leads frontends to chains that choose slots. */
export function leadsToSlots({ role }: Pick<TableSet, "role">): boolean {
  return role === "services" || role === "shortCircuits";
}

/** Where a frontend leads to; the table may have it in another map of the role (`DesiredNode.cutsFrontends`). */
function verdictOf({ sets }: Leading, frontends: TableSet, text: string): string {
  const verdict = sets.get(frontends.name)?.get(text);
  if (verdict !== undefined || frontends.role !== "services") return verdict ?? "";
  const key = parseKey(frontends, text);
  if (key?.type !== "frontend" || frontends.family === undefined) return "";
  const cutsFrontends = frontends.shard === undefined;
  const { name } = frontendMap({ cutsFrontends }, { family: frontends.family, key });
  return sets.get(name)?.get(text) ?? "";
}

function isOfSlots(set: TableSet | undefined): set is HeldSlots["set"] {
  return set?.keyType === "slot";
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

  constructor({ chains }: Leading) {
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
