/**
 * Builds the scripts that `--once` prints and the daemon applies.
 * @module
 */
import {
  changesFixedRules,
  type DesiredNode,
  type DesiredServicePort,
  type DesiredState,
  type StateChange,
} from "../../../model/kernel/desired.ts";
import type { Family } from "../../../model/values/address.ts";
import type { Script } from "../../../model/kernel/dataplane.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";
import { answersOnLoopback } from "../../../policy/node.ts";
import { type Abilities, nodeGuards } from "./fixed_rules.ts";
import { fullInput, rulesOfService } from "./full.ts";
import {
  countOperations,
  emptyTable,
  renderFamily,
  type ScriptInput,
  type ServiceRules,
  type SharedRule,
  type TableInput,
} from "./rule.ts";
import { append } from "../../../model/values/lists.ts";
import { without } from "../../compare.ts";
import { programName, type Table } from "./names.ts";

/**
 * A script for both families. Its `text` has the input of each family after a line `# iptables-restore` or `#
 * ip6tables-restore`. A family without operations is left out.
 *
 * A full script's text is for tables without our rules. `apply` adapts it to the kernel.
 */
export interface IptablesScript extends Script {
  /** The length written by `apply`. */
  bytes: number;
  /**
   * Computes the script once, in turns. An earlier access computes it without a break.
   * @yields when other work can run
   */
  making(): Generator<undefined, readonly ScriptInput[]>;
  /** True if node ports answer on 127.0.0.1, which needs the kernel's `route_localnet`. */
  readonly routeLocalnet: boolean;
}

/** The target of a script. */
interface ScriptOptions {
  /** The families with a working iptables. */
  readonly families: readonly Family[];
  readonly abilities: Abilities;
}

/** Returns the script for the full state. */
export function fullScript(state: DesiredState, options: ScriptOptions): IptablesScript {
  const { families, abilities } = options;
  const { node } = state;
  // Later changes of the state do not affect the script.
  const services = new Map(state.services);
  return new LazyScript(
    "full",
    families.map((family) => () => fullInput({ node, services }, { family, abilities })),
    families.some((family) => answersOnLoopback(node, family)),
  );
}

/** Returns the script for a step, or `undefined` if the node's change affects rules that all Services share. */
export function partialScript(
  change: StateChange,
  state: DesiredState,
  options: ScriptOptions,
): IptablesScript | undefined {
  if (changesFixedRules(change)) return undefined;
  const { node } = state;
  return new LazyScript(
    "partial",
    options.families.map((family) => () => partialInput(change, { family, node })),
    false,
  );
}

/** Starts to compute a family's input. */
type Making = () => Generator<undefined, ScriptInput>;

/** A script that is computed on access. */
class LazyScript implements IptablesScript {
  readonly #inputs: readonly Making[];
  #made: readonly ScriptInput[] | undefined;
  bytes = 0;

  constructor(
    readonly kind: Script["kind"],
    inputs: readonly Making[],
    readonly routeLocalnet: boolean,
  ) {
    this.#inputs = inputs;
  }

  *making(): Generator<undefined, readonly ScriptInput[]> {
    if (this.#made !== undefined) return this.#made;
    const families: ScriptInput[] = [];
    for (const input of this.#inputs) families.push(yield* input());
    return this.#made = families;
  }

  get #families(): readonly ScriptInput[] {
    return atOnce(this.making());
  }

  get text(): string {
    return this.#families.map((input) => {
      const text = atOnce(renderFamily(input));
      return text === "" ? "" : `# ${programName(input.family, "-restore")}\n${text}`;
    }).join("");
  }

  get operations(): number {
    return this.#families.flatMap(({ tables }) => tables)
      .reduce((sum, table) => sum + countOperations(table), 0);
  }
}

/**
 * Returns the input for one family's step between two states. It needs the earlier state in the kernel, because it
 * deletes rules.
 * @param change must not change more of the node than its ServiceCIDRs and own addresses; see `changesFixedRules`
 * @yields when other work can run
 */
function* partialInput(
  change: StateChange,
  options: { readonly family: Family; readonly node: DesiredNode },
): Generator<undefined, ScriptInput> {
  const rulesOf = (ports: readonly DesiredServicePort[]) => rulesOfService(ports, options);
  const guards = (node: DesiredNode | undefined): ServiceRules[] =>
    node ? [nodeGuards(node, options.family)] : [];
  const before = guards(change.node?.before);
  const after = guards(change.node?.after);
  const changed = [...change.services].filter(([, { before, after }]) => before !== after);
  for (const [, each] of changed.sort(([one], [other]) => one < other ? -1 : 1)) {
    append(before, rulesOf(each.before));
    append(after, rulesOf(each.after));
    yield;
  }
  const chains = chainChanges(before, after);
  const shared = sharedChanges(before, after);
  const added = (table: Table) => ({
    inserted: texts(shared.added, (rule) => rule.table === table && rule.place === "first"),
    appended: texts(shared.added, (rule) => rule.table === table && rule.place === "last"),
  });
  const deleted = (table: Table) => ({
    deleted: texts(shared.deleted, (rule) => rule.table === table),
  });
  const growthOf = (table: Table) => countRules(after, table) - countRules(before, table);
  return {
    family: options.family,
    tables: [
      { ...emptyTable("filter"), ...added("filter") },
      { ...emptyTable("nat"), ...chains, ...deleted("nat"), ...added("nat") },
      { ...emptyTable("filter"), ...deleted("filter") },
    ],
    growth: { filter: growthOf("filter"), nat: growthOf("nat") },
  };
}

function countRules(services: readonly ServiceRules[], table: Table): number {
  let count = 0;
  for (const { shared, chains } of services) {
    count += shared.filter((rule) => rule.table === table).length;
    for (const rules of table === "nat" ? chains.values() : []) count += rules.length;
  }
  return count;
}

function chainChanges(
  before: readonly ServiceRules[],
  after: readonly ServiceRules[],
): Pick<TableInput, "chains" | "removed"> {
  const was = new Map(before.flatMap(({ chains }) => [...chains]));
  const is = new Map(after.flatMap(({ chains }) => [...chains]));
  const isChanged = (chain: string, rules: readonly string[]) => {
    const old = was.get(chain);
    return old?.length !== rules.length || rules.some((rule, i) => rule !== old[i]);
  };
  return {
    chains: new Map([...is].filter(([chain, rules]) => isChanged(chain, rules))),
    removed: [...was.keys()].filter((chain) => !is.has(chain)),
  };
}

/** Compares rules with their number: two Services with one endpoint have equal rules. */
function sharedChanges(
  before: readonly ServiceRules[],
  after: readonly ServiceRules[],
): { readonly deleted: readonly SharedRule[]; readonly added: readonly SharedRule[] } {
  const was = before.flatMap(({ shared }) => shared);
  const is = after.flatMap(({ shared }) => shared);
  return {
    deleted: without(was, { others: is, keyOf: sharedKey }),
    added: without(is, { others: was, keyOf: sharedKey }),
  };
}

function sharedKey({ table, chain, rule }: SharedRule): string {
  return `${table} ${chain} ${rule}`;
}

function texts(rules: readonly SharedRule[], isWanted: (rule: SharedRule) => boolean): string[] {
  return rules.filter(isWanted).map(({ chain, rule }) => `${chain} ${rule}`);
}
