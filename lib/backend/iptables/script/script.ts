/**
 * Scripts of both families: what `--once` prints and the daemon applies.
 *
 * @module
 */
import { changesFixedRules } from "../../../model/cluster/node_change.ts";
import type { Family } from "../../../model/values/address.ts";
import type { Script } from "../../../model/kernel/dataplane.ts";
import type { DesiredState, StateChange } from "../../../model/kernel/desired.ts";
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
  readonly families: readonly FamilyInput[];
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
  return script(families.map((family) => fullInput(state, { family, abilities })), {
    kind: "full",
    routeLocalnet: families.some((family) => answersOnLoopback(state.node, family)),
  });
}

/** The script for a step; `undefined` where rules that all services share change with the node. */
export function partialScript(
  change: StateChange,
  state: DesiredState,
  options: ScriptOptions,
): IptablesScript | undefined {
  if (changesFixedRules(change)) return undefined;
  const { node } = state;
  return script(options.families.map((family) => partialInput(change, { family, node })), {
    kind: "partial",
    routeLocalnet: false,
  });
}

/** The name of a family's iptables program, for example `ip6tables-restore`. */
export function programName(family: Family, tool: "" | "-restore" | "-save", backend = ""): string {
  return `${family === 4 ? "iptables" : "ip6tables"}${backend}${tool}`;
}

/** The input of both families as one text, each under the name of its program. */
function renderFamilies(families: readonly FamilyInput[]): string {
  return families.map((input) => {
    const text = renderFamily(input);
    return text === "" ? "" : `# ${programName(input.family, "-restore")}\n${text}`;
  }).join("");
}

function script(
  families: readonly FamilyInput[],
  rest: Pick<IptablesScript, "kind" | "routeLocalnet">,
): IptablesScript {
  let text: string | undefined;
  return {
    ...rest,
    families,
    get text() {
      return text ??= renderFamilies(families);
    },
    get bytes() {
      return this.text.length;
    },
    operations: families.flatMap(({ tables }) => tables)
      .reduce((sum, table) => sum + countOperations(table), 0),
  };
}
