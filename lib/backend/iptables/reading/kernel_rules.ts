/**
 * Compares the kernel's rules with the desired ones.
 * @module
 */
import { append } from "../../../model/values/lists.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
} from "../../../model/kernel/desired.ts";
import type { Change, Difference } from "../../../model/kernel/differences.ts";
import type { Comparison, KernelEntry, KernelRules } from "../../backend.ts";
import type { Abilities } from "../script/fixed_rules.ts";
import { fullInput } from "../script/full.ts";
import { CANARY_CHAIN, isServiceChain, leadsToEndpoint } from "../script/names.ts";
import type { FamilyInput, TableInput } from "../script/ruleset.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";
import {
  argumentOf,
  isOurJump,
  isOwnChain,
  referencedByOthers,
  sameRule,
  type Saved,
  type SavedTable,
  tokens,
} from "../kernel/saved.ts";
import { serviceRules } from "../script/service_rules.ts";
import type { Family } from "../../../model/values/address.ts";
import { type PlacedRule, rulesOf, toChange } from "./changes.ts";
import { programName } from "../script/script.ts";
import { without } from "../../without.ts";

/** Returns the kernel's rules from the output of the save programs. */
export function iptablesRules(held: SavedFamilies, abilities: Abilities): KernelRules {
  return {
    isEmpty: ![...held.values()].some((saved) => saved.get("nat")?.chains.has(CANARY_CHAIN)),
    entries: (ports, node) => iptablesEntries(ports, { node, held }),
    // xt_recent lists them in /proc/net/xt_recent without the remaining time.
    stickyClients: () => [],
    compare: (state) => compareFamilies(state, { held, abilities }),
    changesTo: (state) => ({ changes: iptablesKernelChanges(state, held), warnings: [] }),
  };
}

function compareFamilies(
  state: DesiredState,
  { held, abilities }: { readonly held: SavedFamilies; readonly abilities: Abilities },
): Comparison {
  const differences: Difference[] = [];
  let compared = 0;
  for (const [family, saved] of held) {
    const input = atOnce(fullInput(state, { family, abilities }));
    compared += countRules(input);
    append(differences, compareSaved(input, saved));
  }
  const names = new Set([...state.services.values()].flat().map(({ name }) => name));
  return {
    differences: differences.map((each) => ({ ...each, service: ownerOf(each, names) })),
    compared,
  };
}

function countRules({ tables }: FamilyInput): number {
  let count = 0;
  for (const { chains, inserted } of tables) {
    count += inserted.length;
    for (const rules of chains.values()) count += rules.length;
  }
  return count;
}

/** Returns the owner from the rule's comment, which begins with the service port's name. */
function ownerOf({ key, desired, held }: Difference, names: ReadonlySet<string>): string {
  for (const [, comment = ""] of `${key} ${desired} ${held}`.matchAll(/--comment "?([^" ]+)/g)) {
    if (names.has(comment)) return comment;
  }
  return "";
}

/** The kernel's rules of each family. */
export type SavedFamilies = ReadonlyMap<Family, Saved>;

/** Returns the desired rules of a Service and their state in the kernel, differences first. */
export function iptablesEntries(
  ports: readonly DesiredServicePort[],
  { node, held }: { readonly node: DesiredNode; readonly held: SavedFamilies },
): KernelEntry[] {
  const entries = ports.flatMap((port) => {
    const saved = held.get(port.family);
    if (!saved) return [];
    const { shared, chains } = serviceRules(port, node);
    return [
      ...shared.map(({ table, chain, rule }) => {
        const there = rulesIn(saved, table, chain).some((each) => sameRule(each, rule));
        return entry(`${table} ${chain}`, rule, there ? "same" : "missing");
      }),
      ...[...chains].flatMap(([chain, rules]) => chainEntries(saved, chain, rules)),
    ];
  });
  return entries.sort((a, b) => Number(a.state === "same") - Number(b.state === "same"));
}

/** Compares a chain of the Service rule by rule, in order. */
function chainEntries(saved: Saved, chain: string, rules: readonly string[]): KernelEntry[] {
  const place = `nat ${chain}`;
  if (!saved.get("nat")?.chains.has(chain)) return [entry(place, "", "missing")];
  const held = rulesIn(saved, "nat", chain);
  return Array.from({ length: Math.max(held.length, rules.length) }, (_, i) => {
    const desired = rules[i];
    const there = held[i];
    if (desired === undefined) return entry(place, there ?? "", "extra");
    if (there === undefined) return entry(place, desired, "missing");
    return sameRule(desired, there)
      ? entry(place, desired, "same")
      : { in: place, key: `rule ${i + 1}`, desired, held: there, state: "wrong" as const };
  });
}

function rulesIn(saved: Saved, table: string, chain: string): string[] {
  return (saved.get(table)?.rules ?? []).filter((each) => each.chain === chain)
    .map(({ rule }) => rule);
}

/** Returns an entry whose key is the rule itself. */
function entry(place: string, rule: string, state: KernelEntry["state"]): KernelEntry {
  return { in: place, key: rule, desired: "", held: "", state };
}

/**
 * Returns the step from the kernel's rules to those of some Services. The comment of a rule names its service port,
 * else its chain does.
 * @param state the Services of the manifests only
 */
export function iptablesKernelChanges(state: DesiredState, held: SavedFamilies): Change[] {
  const ports = [...state.services.values()].flat();
  const wanted = ports.flatMap((port) => rulesOf(port, state.node));
  const chains = new Map(wanted.map((each) => [`${each.family} ${each.chain}`, each.service]));
  const there = heldRules(held, (rule) => {
    const name = argumentOf(rule.rule, "--comment")?.split(" ")[0] ?? "";
    if (state.services.has(name.split(":")[0] ?? "")) return name;
    return isServiceChain(rule.chain) ? chains.get(`${rule.family} ${rule.chain}`) : undefined;
  });
  return [
    ...there.filter((each) => !wanted.some((other) => isSame(each, other)))
      .map((each) => toChange("delete", each)),
    ...wanted.filter((each) => !there.some((other) => isSame(each, other)) && !isShared(each, held))
      .map((each) => toChange("add", each)),
  ];
}

/** Returns the rules in our chains that `serviceOf` assigns to a service port. */
function heldRules(
  held: SavedFamilies,
  serviceOf: (rule: Omit<PlacedRule, "service">) => string | undefined,
): PlacedRule[] {
  return [...held].flatMap(([family, saved]) =>
    [...saved.values()].flatMap(({ name: table, rules }) =>
      rules.filter(({ chain }) => isOwnChain(chain)).flatMap(({ chain, rule }) => {
        const place = { family, table, chain, rule };
        const service = serviceOf(place);
        return service === undefined ? [] : [{ ...place, service }];
      })
    )
  );
}

/** Returns true for a hairpin rule, which has no comment and may be another Service's. */
function isShared({ family, table, chain, rule }: PlacedRule, held: SavedFamilies): boolean {
  const saved = held.get(family);
  return saved !== undefined && rulesIn(saved, table, chain).some((each) => sameRule(each, rule));
}

function isSame(a: PlacedRule, b: PlacedRule): boolean {
  return a.family === b.family && a.table === b.table && a.chain === b.chain &&
    sameRule(a.rule, b.rule);
}

/**
 * Returns all differences of one family, by table and chain. It ignores other programs' rules in built-in chains,
 * and any order that has no effect.
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
 * Compares the jumps: each must be in its built-in chain once, among the rules of other programs. A rule with a
 * jump's comment that leads to our chain counts as a jump.
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
