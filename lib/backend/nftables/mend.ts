/** Turns the differences of a table into the change that removes them. */
import type { Difference } from "../../model/kernel/differences.ts";
import { parsePlace } from "./compare.ts";
import { type Delta, NOTHING } from "./delta.ts";
import { parseKey, setNamed, type TableSet } from "./sets.ts";
import { type Contents, elementKey } from "./read.ts";
import { type Chain, element, elementsOf, type Table } from "./table.ts";

interface MendOptions {
  readonly desired: Omit<Table, "references">;
  readonly held: Contents;
  /** With the numbers of slots. */
  readonly differences: readonly Difference[];
}

/**
 * Returns the change that removes the differences. Only chains are written again; other objects keep times and counters.
 * @returns `undefined` if parts do not suffice
 */
export function mend({ desired, held, differences }: MendOptions): Delta | undefined {
  const chains = new Map(desired.chains.map((each) => [each.name, each]));
  const parts: Partial<Delta>[] = [];
  for (const [text, all] of Map.groupBy(differences, (each) => each.in)) {
    const { type, name } = parsePlace(text);
    if (!PLAIN_NAME.test(name)) return undefined;
    const part = type === "chain"
      ? mendChain({ name, wanted: chains.get(name) }, all)
      : mendSet({ name, kind: kindOf(held.declarations.get(name) ?? "") }, all);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  const lacking = new Set(
    differences.flatMap(({ type, in: place, key }) => type === "extra" ? [] : [`${place} ${key}`]),
  );
  const isNew = (set: string) => lacking.has(`${set} `);
  const different = new Set(differences.map((each) => each.in));
  const near = desired.elements.filter(({ set }) => different.has(set.name));
  return {
    ...NOTHING,
    addSets: desired.sets.filter(({ name }) => isNew(name)),
    addChains: parts.flatMap((each) => each.addChains ?? []),
    rewriteChains: parts.flatMap((each) => each.rewriteChains ?? []),
    deleteElements: parts.flatMap((each) => each.deleteElements ?? []),
    addElements: [...elementsOf(near)].filter((element) =>
      isNew(element.set.name) || lacking.has(`${element.set.name} ${elementKey(element)}`)
    ),
    deleteChains: parts.flatMap((each) => each.deleteChains ?? []),
    deleteSets: parts.flatMap((each) => each.deleteSets ?? []),
  };
}

/** Other programs choose these names, and they become commands. */
const PLAIN_NAME = /^[A-Za-z_][\w./-]*$/;
const PLAIN_KEY = /^[\w.:/]+(?:(?: \. |-)[\w.:/]+)*$/;

function mendChain(
  { name, wanted }: { readonly name: string; readonly wanted: Chain | undefined },
  all: readonly Difference[],
): Partial<Delta> | undefined {
  if (wanted === undefined) return { deleteChains: [{ name }] };
  if (all.some(({ type, key }) => type === "missing" && key === "")) return { addChains: [wanted] };
  const { hook, ...unhooked } = wanted;
  const hasOtherHook = all.some(({ key }) => /^type \S+ hook /.test(key));
  // Other chains lead to one without a hook, so it cannot be deleted.
  if (hasOtherHook && hook === undefined) return undefined;
  return { rewriteChains: [{ before: hasOtherHook ? unhooked : wanted, after: wanted }] };
}

function mendSet(
  there: Pick<TableSet, "kind" | "name">,
  all: readonly Difference[],
): Partial<Delta> | undefined {
  const whole = all.find(({ key }) => key === "");
  if (whole?.type === "wrong") return undefined;
  if (whole) return whole.type === "extra" ? { deleteSets: [there] } : {};
  const set = setNamed(there.name);
  const extra = all.filter(({ type }) => type !== "missing");
  if (set === undefined || !extra.every(({ key }) => PLAIN_KEY.test(key))) return undefined;
  return {
    deleteElements: extra.map(({ key: text }) =>
      element(set, parseKey(set, text) ?? { type: "text", text })
    ),
  };
}

function kindOf(declaration: string): TableSet["kind"] {
  return (["map", "flowtable"] as const).find((kind) => declaration.startsWith(kind)) ?? "set";
}
