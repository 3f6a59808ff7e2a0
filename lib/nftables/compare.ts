/**
 * The desired contents of the table beside those of the kernel.
 *
 * @module
 */
import type { Contents } from "./contents.ts";
import { AFFINITY_SET } from "./pick.ts";

/** One difference. */
export interface TableDifference {
  readonly type: "missing" | "extra" | "wrong";
  /** The set, map or chain. */
  readonly in: string;
  /** The key of the element; `""`: the set, map or chain itself. */
  readonly key: string;
  /** What should be there; `""`: nothing, or an element of a set. */
  readonly desired: string;
  /** What is there. */
  readonly held: string;
}

/** All differences, by set and key. Clients of session affinity are the kernel's own. */
export function compareContents(desired: Contents, held: Contents): TableDifference[] {
  return [
    ...compareMaps(desired.chains, held.chains, (name, rules) => ({
      in: `chain ${name}`,
      key: "",
      text: `${rules} rules`,
    })),
    ...compareSets(desired, held),
  ].sort((a, b) => `${a.in} ${a.key}` < `${b.in} ${b.key}` ? -1 : 1);
}

function compareSets(desired: Contents, held: Contents): TableDifference[] {
  const differences: TableDifference[] = [];
  for (const name of new Set([...desired.sets.keys(), ...held.sets.keys()])) {
    const wanted = desired.sets.get(name);
    const there = held.sets.get(name);
    if (!wanted || !there) {
      const type = wanted ? "missing" : "extra";
      differences.push({ type, in: name, key: "", desired: "", held: "" });
      continue;
    }
    if (name.startsWith(AFFINITY_SET)) continue;
    const [left, right] = withoutEqualSlots(wanted, there, name);
    differences.push(...compareMaps(left, right, (key, text) => ({ in: name, key, text })));
  }
  return differences;
}

/**
 * Long lists of endpoints keep their slots from sync to sync: the same endpoints in another order
 * are the same choice. Frontends with the same endpoints are left out of the comparison.
 */
function withoutEqualSlots(
  wanted: ReadonlyMap<string, string>,
  there: ReadonlyMap<string, string>,
  name: string,
): readonly [ReadonlyMap<string, string>, ReadonlyMap<string, string>] {
  if (!/(?:^|-)endpoints-/.test(name)) return [wanted, there];
  const left = byFrontend(wanted);
  const right = byFrontend(there);
  const equal = (key: string) => {
    const frontend = frontendOf(key);
    return left.get(frontend)?.sort().join() === right.get(frontend)?.sort().join();
  };
  const keep = (map: ReadonlyMap<string, string>) =>
    new Map([...map].filter(([key]) => !equal(key)));
  return [keep(wanted), keep(there)];
}

function byFrontend(slots: ReadonlyMap<string, string>): Map<string, string[]> {
  const frontends = new Map<string, string[]>();
  for (const [key, data] of slots) {
    const frontend = frontendOf(key);
    const list = frontends.get(frontend);
    if (list) list.push(data);
    else frontends.set(frontend, [data]);
  }
  return frontends;
}

function frontendOf(key: string): string {
  return key.slice(0, key.lastIndexOf(" . "));
}

function compareMaps<T>(
  wanted: ReadonlyMap<string, T>,
  there: ReadonlyMap<string, T>,
  describe: (
    key: string,
    value: T,
  ) => { readonly in: string; readonly key: string; readonly text: string },
): TableDifference[] {
  const differences: TableDifference[] = [];
  for (const [key, value] of wanted) {
    const found = there.get(key);
    if (found === value) continue;
    const { text, ...place } = describe(key, value);
    const held = found === undefined ? "" : describe(key, found).text;
    differences.push({
      type: found === undefined ? "missing" : "wrong",
      ...place,
      desired: text,
      held,
    });
  }
  for (const [key, value] of there) {
    if (wanted.has(key)) continue;
    const { text, ...place } = describe(key, value);
    differences.push({ type: "extra", ...place, desired: "", held: text });
  }
  return differences;
}
