/** Builds the scripts that `--once` prints and the daemon applies. */
import {
  changesFixedRules,
  type DesiredNode,
  type DesiredState,
  type StateChange,
} from "../../../model/kernel/desired.ts";
import type { Family } from "../../../model/values/address.ts";
import type { Script } from "../../../model/kernel/dataplane.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";
import { answersOnLoopback } from "../../../policy/node.ts";
import type { Iptables } from "../kernel/programs.ts";
import { fullInput, rulesOfService } from "./full.ts";
import {
  countOperations,
  emptyTable,
  type FamilyInput,
  renderFamily,
  type ServiceRules,
  type SharedRule,
  type TableInput,
} from "./rule.ts";
import { programName, type Table } from "./names.ts";
import { without } from "../../../model/kernel/differences.ts";

type ScriptOptions = Pick<Iptables, "families" | "tcpBeLiberal">;

/** Returns the script for a state that stays. Its text is for tables without our rules; `apply` adapts it. */
export function fullScript(
  state: DesiredState,
  { families, tcpBeLiberal }: ScriptOptions,
): IptablesScript {
  return new IptablesScript(
    "full",
    families.map((family) => () => fullInput(state, { family, tcpBeLiberal })),
    families.some((family) => answersOnLoopback(state.node, family)),
  );
}

/** Returns the script for a step, or `undefined` if the node's change affects rules that all Services share. */
export function partialScript(
  change: StateChange,
  { node }: DesiredState,
  { families }: Pick<ScriptOptions, "families">,
): IptablesScript | undefined {
  if (changesFixedRules(change)) return undefined;
  return new IptablesScript(
    "partial",
    families.map((family) => () => partialInput(change, { family, node })),
    false,
  );
}

/** Has the script of both families, computed on access. */
export class IptablesScript implements Script {
  #made: readonly FamilyInput[] | undefined;
  /** The length written by `apply`. */
  bytes = 0;

  /** @param routeLocalnet true if node ports answer on 127.0.0.1, which needs the kernel's `route_localnet` */
  constructor(
    readonly kind: Script["kind"],
    private readonly inputs: readonly (() => Generator<undefined, FamilyInput>)[],
    readonly routeLocalnet: boolean,
  ) {}

  /** Computes the script once. An earlier access computes it without a break. @yields when other work can run */
  *making(): Generator<undefined, readonly FamilyInput[]> {
    if (this.#made !== undefined) return this.#made;
    const families: FamilyInput[] = [];
    for (const input of this.inputs) families.push(yield* input());
    return this.#made = families;
  }

  get text(): string {
    return atOnce(this.making()).map((input) => {
      const text = atOnce(renderFamily(input));
      return text === "" ? "" : `# ${programName(input.family, "-restore")}\n${text}`;
    }).join("");
  }

  get operations(): number {
    return atOnce(this.making()).flatMap(({ tables }) => tables)
      .reduce((sum, table) => sum + countOperations(table), 0);
  }
}

/** Returns one family's step, which needs the earlier state in the kernel. @yields when other work can run */
function* partialInput(
  change: StateChange,
  options: { readonly family: Family; readonly node: DesiredNode },
): Generator<undefined, FamilyInput> {
  const before: ServiceRules[] = [];
  const after: ServiceRules[] = [];
  const changed = [...change.services].filter(([, { before, after }]) => before !== after);
  for (const [, each] of changed.sort(([one], [other]) => one < other ? -1 : 1)) {
    before.push(rulesOfService(each.before, options));
    after.push(rulesOfService(each.after, options));
    yield;
  }
  const { family } = options;
  const was = before.flatMap(({ shared }) => shared);
  const is = after.flatMap(({ shared }) => shared);
  // Two Services with one endpoint have equal rules, so their number counts.
  const deleted = without(was, { others: is, keyOf });
  const added = without(is, { others: was, keyOf });
  const addedTo = (table: Table) => ({
    inserted: textsOf(added.filter(({ place }) => place === "first"), table),
    appended: textsOf(added.filter(({ place }) => place === "last"), table),
  });
  return {
    family,
    tables: [
      { ...emptyTable("filter"), ...addedTo("filter") },
      {
        ...emptyTable("nat"),
        ...chainChanges(before, after),
        ...addedTo("nat"),
        deleted: textsOf(deleted, "nat"),
      },
      { ...emptyTable("filter"), deleted: textsOf(deleted, "filter") },
    ],
  };
}

function keyOf({ table, chain, rule }: SharedRule): string {
  return `${table} ${chain} ${rule}`;
}

function textsOf(rules: readonly SharedRule[], table: Table): string[] {
  return rules.filter((rule) => rule.table === table).map(({ chain, rule }) => `${chain} ${rule}`);
}

function chainChanges(
  before: readonly ServiceRules[],
  after: readonly ServiceRules[],
): Pick<TableInput, "chains" | "removed" | "flushed"> {
  const was = new Map(before.flatMap(({ chains }) => [...chains]));
  const is = new Map(after.flatMap(({ chains }) => [...chains]));
  const isChanged = (chain: string, rules: readonly string[]) => {
    const old = was.get(chain);
    return old?.length !== rules.length || rules.some((rule, i) => rule !== old[i]);
  };
  const chains = new Map([...is].filter(([chain, rules]) => isChanged(chain, rules)));
  const removed = [...was.keys()].filter((chain) => !is.has(chain));
  const flushed = [...chains.keys(), ...removed]
    .reduce((sum, chain) => sum + (was.get(chain)?.length ?? 0), 0);
  return { chains, removed, flushed };
}
