/** `signpost migrate`: lists what changes for each Service if signpost replaces this node's kube-proxy. */
import { usedBackend } from "../backend/choose.ts";
import { kubeProxyProcesses } from "../backend/take_over.ts";
import type { CommandOf } from "../config/command.ts";
import type { Run } from "../config/load.ts";
import { nodePortAddresses } from "../explain/packet.ts";
import { serviceOf } from "../model/cluster/names.ts";
import type { Mode } from "../model/configuration.ts";
import type { DesiredServicePort } from "../model/kernel/desired.ts";
import { FAMILIES, familyOf, isLoopback } from "../model/values/address.ts";
import { count, shortList } from "../model/values/text.ts";
import { describeUnsupported } from "../model/kernel/traits.ts";
import { describeConflicts } from "../policy/service_claims.ts";
import { desiredNode } from "../policy/node.ts";
import { findNodeProblems } from "./check.ts";
import type { QueryContext } from "./context.ts";
import { type NodeState, readNodeState } from "./objects.ts";
import { type Paint, renderReport } from "./output.ts";

export interface MigrationReport {
  /** The version grows when a field is removed or changes its meaning. */
  readonly migrateVersion: 1;
  readonly node: string;
  /** The mode of kube-proxy, by its rules on this node; `""`: it has not written rules. */
  readonly from: Mode | "ipvs" | "";
  readonly to: Mode;
  readonly services: number;
  readonly changes: readonly {
    readonly service: string;
    /** The changes, one line each, with a remedy. */
    readonly what: readonly string[];
  }[];
  /** Settings without effect, and firewalls that drop connections to any Service. */
  readonly general: readonly string[];
  /** The line to type for the replacement. */
  readonly command: string;
}

/** The context, with the warnings about the configuration, such as about a scheduler. */
type MigrationContext = QueryContext & Pick<Run, "warnings">;

/** Prints the changes, and makes none. @returns 1 if a Service changes, else 0 @throws {FatalError} */
export async function migrate(
  { output, timeout }: CommandOf<"migrate">,
  context: MigrationContext,
): Promise<number> {
  const { runtime } = context;
  const known = await readNodeState({ ...context, timeout });
  const report = await migration(known, context);
  await runtime.print(renderReport(report, { output, runtime, table: migrationTable }));
  return report.changes.length > 0 ? 1 : 0;
}

async function migration(known: NodeState, context: MigrationContext): Promise<MigrationReport> {
  const { nodeName, runtime, warnings } = context;
  const { state: { desired, refused, conflicts }, backend } = known;
  const [{ findings }, rules, processes] = await Promise.all([
    findNodeProblems(context),
    backend.foreignRules.findProxy(),
    kubeProxyProcesses(runtime),
  ]);
  const from = runtime.interfaces().some(({ name }) => name === "kube-ipvs0")
    ? "ipvs"
    : rules.some((each) => each.startsWith("table "))
    ? "nftables"
    : rules.length > 0
    ? "iptables"
    : "";
  const closed = await closedAddresses(known, { ...context, from });
  const changes = new Map<string, string[]>();
  const add = (service: string, what: string) =>
    changes.set(service, [...changes.get(service) ?? [], what]);
  for (const port of [...desired.services.values()].flat()) {
    const addresses = closed.filter((each) => familyOf(each) === port.family);
    if (port.nodePort !== 0 && addresses.length > 0) {
      add(serviceOf(port.name), nodePortText(port, addresses));
    }
  }
  const general: string[] = [...warnings];
  for (const { what, remedy, services, drops } of findings) {
    const text = `${what}; ${remedy}`;
    for (const service of services) add(service, text);
    if (drops && services.length === 0) general.push(text);
  }
  for (const { kind, key, reason } of refused) {
    if (kind === "Service") add(key, `signpost refuses it: ${reason}`);
  }
  for (const [loser, lost] of Map.groupBy(conflicts, ({ loser }) => loser)) {
    add(loser, describeConflicts(lost));
  }
  for (const each of desired.unsupported()) add(each.service, describeUnsupported(each));
  return {
    migrateVersion: 1,
    node: nodeName,
    from,
    to: backend.traits.name,
    services: desired.services.size,
    changes: [...changes].map(([service, what]) => ({ service, what })),
    general,
    command: await commandOf(processes, context),
  };
}

/** By kube-proxy's mode: if a node port is open by default on an address where iptables mode opens it. */
const OPEN_BY_DEFAULT: Readonly<Record<MigrationReport["from"], (address: string) => boolean>> = {
  iptables: () => true,
  ipvs: (address) => !isLoopback(address),
  nftables: () => false,
  "": () => false,
};

/** Returns the addresses on which kube-proxy opens node ports by default, and signpost does not. */
async function closedAddresses(
  { state: { cache, desired } }: NodeState,
  { from, ...context }: QueryContext & Pick<MigrationReport, "from">,
): Promise<readonly string[]> {
  const configuration = { ...context.configuration, mode: "iptables" } as const;
  const { traits } = await usedBackend({ ...context, configuration });
  const before = desiredNode({ configuration, traits, node: cache.node, serviceCIDRs: [] });
  const ownAddresses = [...new Set(context.runtime.addresses())];
  const [old, open] = [before, desired.node].map((node) =>
    FAMILIES.flatMap((family) => nodePortAddresses(family, { desired: { node }, ownAddresses }))
  );
  return (old ?? []).filter((each) => OPEN_BY_DEFAULT[from](each) && !open?.includes(each));
}

function nodePortText(
  { nodePort, protocol }: DesiredServicePort,
  addresses: readonly string[],
): string {
  // Listeners serve TCP alone.
  const how = protocol !== "tcp" && addresses.some(isLoopback)
    ? "mode: iptables"
    : "nodePortAddresses: [all, localhost]";
  return `node port ${nodePort}/${protocol} does not answer on ${shortList(addresses)} any more; ` +
    `${how} keeps it`;
}

/** Returns the line that replaces kube-proxy, which runs in a pod or as a unit of this node. */
async function commandOf(
  [process]: readonly string[],
  { nodeName, runtime: { runner } }: QueryContext,
): Promise<string> {
  const [, pid = "self"] = /pid (\d+)/.exec(process ?? "") ?? [];
  const { stdout } = await runner.run(["cat", `/proc/${pid}/cgroup`]);
  return /kubepods/.test(stdout)
    ? `examples/install/take-over-node.sh ${nodeName}`
    : "systemctl disable --now kube-proxy && systemctl enable --now signpost";
}

function migrationTable(report: MigrationReport, paint: Paint): string {
  const { node, from, to, services, changes, general, command } = report;
  const title = `${node}: kube-proxy ${from === "" ? "has no rules here" : `in ${from} mode`}, ` +
    `signpost would use ${to}\n`;
  const listed = changes.map(({ service, what }) =>
    `${paint(service, "bold")}\n${what.map((line) => `  ${line}\n`).join("")}`
  );
  const stay = `${count(services, "Service")}: ${services - changes.length} unchanged, ` +
    `${changes.length} would change\n`;
  return `${title}${general.map((line) => `  ${paint(line, "yellow")}\n`).join("")}` +
    `\n${listed.join("")}${listed.length > 0 ? "\n" : ""}${stay}To switch, type: ${command}\n`;
}
