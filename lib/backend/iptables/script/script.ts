/**
 * Builds the scripts that `--once` prints and the daemon applies.
 *
 * @module
 */
import {
  changesFixedRules,
  type DesiredState,
  type StateChange,
} from "../../../model/kernel/desired.ts";
import type { Family } from "../../../model/values/address.ts";
import type { Script } from "../../../model/kernel/dataplane.ts";
import { atOnce } from "../../../model/ports/in_turns.ts";
import { answersOnLoopback } from "../../../policy/node.ts";
import type { Abilities } from "./fixed_rules.ts";
import { fullInput } from "./full.ts";
import { partialInput } from "./partial.ts";
import { countOperations, type FamilyInput, renderFamily } from "./ruleset.ts";

/**
 * A script for both families. Its `text` has the input of each family after a line `#
 * iptables-restore` or `# ip6tables-restore`. A family without operations is left out.
 *
 * A full script's text is for tables without our rules. `apply` adapts it to the kernel.
 */
export interface IptablesScript extends Script {
  /** The length written by `apply`. */
  bytes: number;
  /**
   * Computes the script once, in turns. An earlier access computes it without a break.
   *
   * @yields when other work can run
   */
  making(): Generator<undefined, readonly FamilyInput[]>;
  /** True if node ports answer on 127.0.0.1, which needs the kernel's `route_localnet`. */
  readonly routeLocalnet: boolean;
}

/** The target of a script. */
export interface ScriptOptions {
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

/** Returns the name of a family's iptables program, for example `ip6tables-restore`. */
export function programName(family: Family, tool: "" | "-restore" | "-save", backend = ""): string {
  return `${family === 4 ? "iptables" : "ip6tables"}${backend}${tool}`;
}

/** Starts to compute a family's input. */
type Making = () => Generator<undefined, FamilyInput>;

/** A script that is computed on access. */
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
