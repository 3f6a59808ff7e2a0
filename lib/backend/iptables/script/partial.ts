/**
 * Builds the partial input, whose size follows the change and not the cluster.
 *
 * @module
 */
import { append } from "../../../model/values/lists.ts";
import type { Family } from "../../../model/values/address.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  StateChange,
} from "../../../model/kernel/desired.ts";
import { without } from "../../without.ts";
import type { Table } from "./names.ts";
import {
  emptyTable,
  type FamilyInput,
  type ServiceRules,
  type SharedRule,
  type TableInput,
} from "./ruleset.ts";
import { nodeGuards } from "./guard_rules.ts";
import { rulesOfService } from "./full.ts";

/**
 * Returns the input for one family's step between two states. It needs the earlier state in the
 * kernel, because it deletes rules.
 *
 * @param change must not change more of the node than its ServiceCIDRs and own addresses; see
 * `changesFixedRules`
 * @yields when other work can run
 */
export function* partialInput(
  change: StateChange,
  options: { readonly family: Family; readonly node: DesiredNode },
): Generator<undefined, FamilyInput> {
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
  return {
    family: options.family,
    tables: [
      { ...emptyTable("filter"), ...added("filter") },
      { ...emptyTable("nat"), ...chains, ...deleted("nat"), ...added("nat") },
      { ...emptyTable("filter"), ...deleted("filter") },
    ],
  };
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
