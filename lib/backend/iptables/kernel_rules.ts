/** Compares the kernel's rules with the desired rules, and names the rules that decide about packets. */
import { append } from "../../model/values/lists.ts";
import type { DesiredNode, DesiredServicePort } from "../../model/kernel/desired.ts";
import {
  type Change,
  compareRules,
  type Difference,
  difference,
  without,
} from "../../model/kernel/differences.ts";
import type { DesiredStep, KernelEntry, KernelRules, RuleNames } from "../backend.ts";
import { fitTable, fullInput, JUMPS } from "./script/full.ts";
import {
  CANARY_CHAIN,
  isServiceChain,
  leadsToEndpoint,
  programName,
  type Table,
  TABLES,
} from "./script/names.ts";
import { countRules, type FamilyInput, type TableInput } from "./script/rule.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import { argumentOf, jumpsIn, type Saved, type SavedTable, wordsOf } from "./kernel/saved.ts";
import { localhostGuard } from "./script/fixed_rules.ts";
import { serviceRules } from "./script/service_rules.ts";
import { ADDRESS_BITS, type Family } from "../../model/values/address.ts";
import type { Match } from "../../policy/frontend.ts";

type SavedFamilies = ReadonlyMap<Family, Saved>;

export function iptablesRules(held: SavedFamilies, tcpBeLiberal: boolean): KernelRules {
  return {
    isEmpty: ![...held.values()].some((saved) => saved.get("nat")?.chains.has(CANARY_CHAIN)),
    entries: (ports, node) => iptablesEntries(ports, { node, held }),
    // /proc/net/xt_recent lists clients without the remaining time.
    stickyClients: () => [],
    compare: (state) => {
      const differences: Difference[] = [];
      let compared = 0;
      for (const [family, saved] of held) {
        const input = atOnce(fullInput(state, { family, tcpBeLiberal }));
        for (const table of input.tables) compared += countRules(table);
        append(differences, atOnce(comparingSaved(input, saved)));
      }
      const names = new Set([...state.services.values()].flat().map(({ name }) => name));
      return {
        differences: differences.map((each) => ({ ...each, service: ownerOf(each, names) })),
        compared,
      };
    },
  };
}

/** Returns the owner from the rule's comment, which begins with the service port's name. */
function ownerOf({ key, desired, held }: Difference, names: ReadonlySet<string>): string {
  for (const [, comment = ""] of `${key} ${desired} ${held}`.matchAll(/--comment "?([^" ]+)/g)) {
    if (names.has(comment)) return comment;
  }
  return "";
}

/** Returns the desired rules of a Service and missing jumps, with their state in the kernel, differences first. */
export function iptablesEntries(
  ports: readonly DesiredServicePort[],
  { node, held }: { readonly node: DesiredNode; readonly held: SavedFamilies },
): KernelEntry[] {
  const families = new Set(ports.map(({ family }) => family));
  const jumps = [...held].filter(([family]) => families.has(family)).flatMap(([, saved]) =>
    TABLES.flatMap((table) => missingJumps(table, saved))
  );
  const entries = ports.flatMap((port) => {
    const saved = held.get(port.family);
    if (!saved) return [];
    const { shared, chains } = serviceRules(port, node);
    return [
      ...shared.map(({ table, chain, rule }) => {
        const words = wordsOf(rule);
        const there = saved.get(table)?.chains.get(chain)?.some((each) => wordsOf(each) === words);
        return entry(`${table} ${chain}`, rule, there ? "same" : "missing");
      }),
      ...[...chains].flatMap(([chain, rules]) =>
        chainEntries(`nat ${chain}`, rules, saved.get("nat")?.chains.get(chain))
      ),
    ];
  });
  const isSame = ({ state }: KernelEntry) => Number(state === "same");
  return [...jumps, ...entries.sort((a, b) => isSame(a) - isSame(b))];
}

/** Returns the missing jumps. Without them, packets do not meet our chains. */
function missingJumps(table: Table, saved: Saved): KernelEntry[] {
  const held = saved.get(table);
  const missing = without(JUMPS[table], { others: held ? jumpsIn(held) : [], keyOf: wordsOf });
  return missing.map((jump) => {
    const end = jump.indexOf(" ");
    return entry(`${table} ${jump.slice(0, end)}`, jump.slice(end + 1), "missing");
  });
}

function chainEntries(
  place: string,
  rules: readonly string[],
  held: readonly string[] | undefined,
): KernelEntry[] {
  if (!held) return [entry(place, "", "missing")];
  return Array.from({ length: Math.max(held.length, rules.length) }, (_, i) => {
    const [desired, there] = [rules[i], held[i]];
    if (desired === undefined) return entry(place, there ?? "", "extra");
    if (there === undefined) return entry(place, desired, "missing");
    return wordsOf(desired) === wordsOf(there)
      ? entry(place, desired, "same")
      : { in: place, key: `rule ${i + 1}`, desired, held: there, state: "wrong" as const };
  });
}

function entry(place: string, rule: string, state: KernelEntry["state"]): KernelEntry {
  return { in: place, key: rule, desired: "", held: "", state };
}

function rulesOf(
  ports: readonly DesiredServicePort[],
  node: DesiredNode,
): Omit<Change, "change">[] {
  return ports.flatMap((port) => {
    const { shared, chains } = serviceRules(port, node);
    const own = [...chains].flatMap(([chain, rules]) =>
      rules.map((rule) => ({ table: "nat", chain, rule }))
    );
    return [...shared, ...own].map(({ table, chain, rule }) => ({
      type: "rule" as const,
      in: `IPv${port.family} ${table} ${chain}`,
      key: rule,
      data: "",
      service: port.name,
    }));
  });
}

/** Returns the rules that a step deletes and adds, deletions first. */
export function iptablesChanges({ change: { services }, node }: DesiredStep): Change[] {
  const rulesAt = (side: "before" | "after") =>
    [...services.values()].flatMap((change) => rulesOf(change[side], node));
  const [before, after] = [rulesAt("before"), rulesAt("after")];
  // Without the Service, so that equal rules of two Services count twice.
  const keyOf = (rule: Omit<Change, "change">) => `${rule.in} ${wordsOf(rule.key)}`;
  return [
    ...without(before, { others: after, keyOf }).map((rule) => ({
      change: "delete" as const,
      ...rule,
    })),
    ...without(after, { others: before, keyOf }).map((rule) => ({
      change: "add" as const,
      ...rule,
    })),
  ];
}

/** Returns all differences of one family from a full input. An order without effect is ignored. */
export function* comparingSaved(
  desired: FamilyInput,
  saved: Saved,
): Generator<undefined, Difference[]> {
  const program = programName(desired.family, "");
  const differences: Difference[] = [];
  for (const input of desired.tables) {
    const place = `${program} ${input.table}`;
    const held = saved.get(input.table);
    if (held) append(differences, yield* comparingTable(input, held, place));
    else differences.push(difference("missing", place));
  }
  return differences;
}

function* comparingTable(
  input: TableInput,
  held: SavedTable,
  place: string,
): Generator<undefined, Difference[]> {
  // The kernel keeps a chain that another program's rule leads to, so it is emptied.
  const { chains, inserted, deleted, removed } = fitTable(input, held);
  const toDifference = (type: Difference["type"]) => (jump: string) => {
    const end = jump.indexOf(" ");
    return difference(type, `${place} ${jump.slice(0, end)}`, { key: jump.slice(end + 1) });
  };
  const compareChain = (chain: string, wanted: readonly string[]) => {
    const there = held.chains.get(chain);
    if (!there) return [difference("missing", `${place} ${chain}`)];
    const at = { place: `${place} ${chain}`, keyOf: wordsOf };
    return isServiceChain(chain)
      ? compareRules(withSortedEndpoints(wanted), withSortedEndpoints(there), at)
      : compareRules(wanted, there, { ...at, orderOf: kindOf });
  };
  const ofChains: Difference[] = [];
  for (const [chain, wanted] of chains) {
    append(ofChains, compareChain(chain, wanted));
    yield;
  }
  return [
    ...ofChains,
    ...inserted.map(toDifference("missing")),
    ...deleted.map(toDifference("extra")),
    ...removed.map((chain) => difference("extra", `${place} ${chain}`)),
  ];
}

/** Sorts the endpoints, which have the same chance at any position. */
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

/** Returns the kind of a rule in a shared chain, or its words. Two rules of one kind match different packets. */
function kindOf(rule: string): string {
  if (/^(-[ds] \S+ )?-p |^-s \S+ -d \S+ .*-j (KUBE-MARK-MASQ|ACCEPT)$/.test(rule)) return "service";
  return wordsOf(rule);
}

export function iptablesNames(node: DesiredNode): RuleNames {
  const find = (match: Match, isWanted: (table: string, chain: string) => boolean) => {
    const { servicePort, frontend } = match;
    const target = frontend.address === undefined
      ? `--dport ${frontend.port}`
      : `-d ${frontend.address}/${ADDRESS_BITS[servicePort.family]}`;
    const rule = serviceRules(servicePort, node).shared.find((each) =>
      isWanted(each.table, each.chain) && ` ${each.rule} `.includes(` ${target} `)
    );
    return rule ? `${rule.table} ${rule.chain}: ${rule.rule}` : "";
  };
  const delivers = (match: Match) => find(match, (table) => table === "nat");
  return {
    delivers,
    shortCircuit: delivers,
    refuses: (match) =>
      find(match, (table, chain) => table === "filter" && chain !== "KUBE-PROXY-FIREWALL"),
    firewall: (match) => find(match, (_, chain) => chain === "KUBE-PROXY-FIREWALL"),
    rejectsLocalhost: () => "",
    guardsLocalhost: () => `filter KUBE-NODEPORTS: ${localhostGuard(4).join("")}`,
    undefinedPort: () => "",
    unallocatedAddress: () => "",
  };
}
