/** Runs all checks, and makes one list of their findings. */
import type { NodeFacts } from "./facts.ts";
import { bySeverity, type Finding } from "../model/status.ts";
import * as addresses from "./addresses.ts";
import { checkFirewalls, checkNatOrder } from "./foreign_chains.ts";
import { checkAcceleration, checkMode } from "./mode.ts";
import { checkPublishedPorts } from "./published_ports.ts";
import { checkRefusals } from "./refusals.ts";
import * as system from "./system.ts";

/** Finds problems. A check that looks at all Services yields `undefined` when other work can run. */
type Check = (facts: NodeFacts) => Iterable<Finding | undefined>;

const CHECKS: readonly Check[] = [
  ({ found = [] }) => found,
  checkMode,
  checkAcceleration,
  system.checkSystem,
  system.checkRouteLocalnet,
  system.checkForwarding,
  system.checkApiServer,
  addresses.checkNodeAddress,
  addresses.checkNodePortRanges,
  addresses.checkFamilies,
  addresses.checkPodDetection,
  addresses.checkPodRange,
  addresses.checkAddressPlan,
  system.checkHealthCheckPorts,
  system.checkMovedConnections,
  ({ ruleset }) => ruleset?.unreadable ? [ruleset.unreadable] : [],
  checkNatOrder,
  checkPublishedPorts,
  checkFirewalls,
  checkRefusals,
];

/** The most findings of one kind in a list. */
const MOST_OF_A_KIND = 20;

/** Finds all problems of a node, errors first. @yields when other work can run */
export function* findAll(facts: NodeFacts): Generator<undefined, Finding[]> {
  const all: Finding[] = [];
  for (const check of CHECKS) {
    for (const found of check(facts)) {
      if (found) all.push(found);
      else yield;
    }
  }
  return [...Map.groupBy(all, ({ id }) => id).values()].flatMap(capped).sort(bySeverity);
}

/** Lists the first findings of a kind, and counts the rest in one. */
function capped(kind: readonly Finding[]): Finding[] {
  const listed = kind.slice(0, MOST_OF_A_KIND);
  const more = kind[MOST_OF_A_KIND];
  if (!more) return listed;
  const what = `… and ${kind.length - MOST_OF_A_KIND} more of this kind`;
  return [...listed, { ...more, what, where: "", services: [] }];
}

/** Returns the key of a finding: its kind and its place. */
export function findingKey({ id, where }: Finding): string {
  return `${id} ${where}`;
}
