/**
 * Compares the desired rules with those of the kernel.
 *
 * @module
 */
import type { Difference } from "../../../model/kernel/differences.ts";
import { isServiceChain, leadsToEndpoint } from "../script/names.ts";
import type { FamilyInput, TableInput } from "../script/ruleset.ts";
import {
  argumentOf,
  isOurJump,
  referencedByOthers,
  type Saved,
  type SavedTable,
  tokens,
} from "./saved.ts";
import { programName } from "../script/script.ts";
import { without } from "../../without.ts";

/**
 * Returns all differences of one family, by table and chain. It ignores other programs' rules in
 * built-in chains, and any order that has no effect.
 *
 * @param desired the result of `fullInput`
 */
export function compareSaved(desired: FamilyInput, saved: Saved): Difference[] {
  const program = programName(desired.family, "");
  return desired.tables.flatMap((input) => {
    const place = `${program} ${input.table}`;
    const held = saved.get(input.table);
    return held ? compareTable(input, held, place) : [difference("missing", place)];
  });
}

function compareTable(input: TableInput, held: SavedTable, place: string): Difference[] {
  const rules = new Map<string, string[]>();
  for (const { chain, rule } of held.rules) {
    const known = rules.get(chain);
    if (known) known.push(rule);
    else rules.set(chain, [rule]);
  }
  const kept = referencedByOthers(held, () => false);
  // A chain that another program's rule leads to cannot be removed, so it is emptied.
  const stale = [...held.chains].filter((chain) =>
    isServiceChain(chain) && !input.chains.has(chain) && !(kept.has(chain) && !rules.has(chain))
  );
  return [
    ...[...input.chains].flatMap(([chain, wanted]) =>
      held.chains.has(chain)
        ? compareRules(inFixedOrder(chain, wanted), inFixedOrder(chain, rules.get(chain) ?? []), {
          place: `${place} ${chain}`,
          isExclusive: true,
        })
        : [difference("missing", `${place} ${chain}`)]
    ),
    ...compareJumps(input, held, place),
    ...stale.sort().map((chain) => difference("extra", `${place} ${chain}`)),
  ];
}

/**
 * Compares the jumps: each must be in its built-in chain once, among the rules of other programs. A
 * rule with a jump's comment that leads to our chain counts as a jump.
 */
function compareJumps({ inserted }: TableInput, held: SavedTable, place: string): Difference[] {
  const wanted = Map.groupBy(inserted, (jump) => jump.slice(0, jump.indexOf(" ")));
  return [...new Set([...wanted.keys(), ...held.builtIn.keys()])].flatMap((chain) => {
    const own = (wanted.get(chain) ?? []).map((jump) => jump.slice(chain.length + 1));
    const known = new Set(own.map(wordsOf));
    const there = held.rules.filter((saved) =>
      saved.chain === chain && (known.has(wordsOf(saved.rule)) || isOurJump(held, saved))
    );
    return compareRules(own, there.map(({ rule }) => rule), {
      place: `${place} ${chain}`,
      isExclusive: false,
    });
  });
}

/** @param options.isExclusive true if the chain may hold no other rules, so that the order counts */
function compareRules(
  wanted: readonly string[],
  there: readonly string[],
  { place, isExclusive }: { readonly place: string; readonly isExclusive: boolean },
): Difference[] {
  const missing = without(wanted, { others: there, keyOf: wordsOf });
  const extra = without(there, { others: wanted, keyOf: wordsOf });
  const differences = [
    ...missing.map((rule) => difference("missing", place, { key: rule })),
    ...extra.map((rule) => difference("extra", place, { key: rule })),
  ];
  if (differences.length > 0 || !isExclusive) return differences;
  const moved = wanted.findIndex((rule, i) => wordsOf(rule) !== wordsOf(there[i] ?? ""));
  if (moved < 0) return [];
  const [desired = "", held = ""] = [wanted[moved], there[moved]];
  return [difference("wrong", place, { desired, held })];
}

function wordsOf(rule: string): string {
  return tokens(rule).join("\0");
}

/** Returns the rules in a fixed order, as far as the order has no effect. */
function inFixedOrder(chain: string, rules: readonly string[]): readonly string[] {
  return isServiceChain(chain) ? withSortedEndpoints(rules) : sortRuns(rules);
}

/** Sorts the endpoints. Each has the same chance at any position. */
function withSortedEndpoints(rules: readonly string[]): readonly string[] {
  const recent = rules.filter((rule) => rule.includes(" --rcheck ")).sort();
  const targets = rules.flatMap((rule) => parsePick(rule)?.endpoint ?? []).sort();
  return rules.map((rule) => {
    if (rule.includes(" --rcheck ")) return recent.shift() ?? rule;
    const pick = parsePick(rule);
    return pick ? `${pick.chance}${targets.shift()}` : rule;
  });
}

/** Splits a rule that picks an endpoint into the chance and the endpoint. */
function parsePick(
  rule: string,
): { readonly chance: string; readonly endpoint: string } | undefined {
  const target = argumentOf(rule, "-j");
  const isPick = target !== undefined && leadsToEndpoint(target) && !rule.includes("-m recent");
  const at = isPick ? rule.indexOf(`-j ${target}`) : -1;
  return at < 0 ? undefined : { chance: rule.slice(0, at), endpoint: rule.slice(at) };
}

/** Sorts each run of Service rules, since no two match the same packet. */
function sortRuns(rules: readonly string[]): readonly string[] {
  const runs: { readonly kind: string; readonly rules: string[] }[] = [];
  for (const rule of rules) {
    const kind = kindOf(rule);
    const last = runs.at(-1);
    if (last && kind !== "" && last.kind === kind) last.rules.push(rule);
    else runs.push({ kind, rules: [rule] });
  }
  return runs.flatMap((run) => run.rules.sort());
}

function kindOf(rule: string): "service" | "own" | "guard" | "" {
  if (/^(-[ds] \S+ )?-p |^-s \S+ -d \S+ -j KUBE-MARK-MASQ/.test(rule)) return "service";
  if (/^-d \S+ -j RETURN$/.test(rule)) return "own";
  if (/^-d \S+ -m comment .* no such port" -j REJECT/.test(rule)) return "guard";
  return "";
}

function difference(
  type: Difference["type"],
  place: string,
  { key = "", desired = "", held = "" } = {},
): Difference {
  return { type, in: place, key, desired, held };
}
