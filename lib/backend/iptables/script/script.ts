/**
 * Scripts of both families: what `--once` prints and the daemon applies.
 *
 * @module
 */
import { changesFixedRules } from "../../../model/cluster/node_change.ts";
import type { Family } from "../../../model/values/address.ts";
import type { Script } from "../../../model/kernel/dataplane.ts";
import type { DesiredState, StateChange } from "../../../model/kernel/desired.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";
import { answersOnLoopback } from "../../../policy/node.ts";
import type { Abilities } from "./fixed_rules.ts";
import { fullInput } from "./full.ts";
import { partialInput } from "./partial.ts";
import { countOperations, type FamilyInput, renderFamily } from "./ruleset.ts";

/**
 * A script for both families. Its `text` is a line `# iptables-restore`, the IPv4 input, a line
 * `# ip6tables-restore`, the IPv6 input, each for `--noflush`; a family without operations is left
 * out. A full script's text is that for tables without rules of ours; what else the kernel holds
 * is seen to when it is applied.
 */
export interface IptablesScript extends Script {
  /** Length of what was written when it was applied. */
  bytes: number;
  /**
   * Works out what the script says, once, in turns; what asks for it before has it at one go.
   *
   * @yields where other work can be done
   */
  making(): Generator<undefined, readonly FamilyInput[]>;
  /** Whether node ports answer on 127.0.0.1, for which the kernel's `route_localnet` must be set. */
  readonly routeLocalnet: boolean;
}

/** What a script is written for. */
export interface ScriptOptions {
  /** The families that this node has iptables for. */
  readonly families: readonly Family[];
  readonly abilities: Abilities;
}

/** The script that makes the full state. */
export function fullScript(state: DesiredState, options: ScriptOptions): IptablesScript {
  const { families, abilities } = options;
  const { node } = state;
  // Later changes of the state do not touch the script.
  const services = new Map(state.services);
  return new LazyScript(
    "full",
    families.map((family) => () => fullInput({ node, services }, { family, abilities })),
    families.some((family) => answersOnLoopback(node, family)),
  );
}

/** The script for a step; `undefined` where rules that all services share change with the node. */
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

/** The name of a family's iptables program, for example `ip6tables-restore`. */
export function programName(family: Family, tool: "" | "-restore" | "-save", backend = ""): string {
  return `${family === 4 ? "iptables" : "ip6tables"}${backend}${tool}`;
}

/** Begins to work out a family's input. */
type Making = () => Generator<undefined, FamilyInput>;

/** A script that is worked out when it is asked for. */
class LazyScript implements IptablesScript {
  readonly #inputs: readonly Making[];
  #made: readonly FamilyInput[] | undefined;
  bytes = 0;

  constructor(
    readonly kind: Script["kind"],
    inputs: readonly Making[],
    readonly routeLocalnet: boolean,
  ) {
    this.#inputs = inputs;
  }

  *making(): Generator<undefined, readonly FamilyInput[]> {
    if (this.#made !== undefined) return this.#made;
    const families: FamilyInput[] = [];
    for (const input of this.#inputs) families.push(yield* input());
    return this.#made = families;
  }

  get #families(): readonly FamilyInput[] {
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
