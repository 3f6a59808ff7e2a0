/** `signpost migrate`: lists what changes for each Service if signpost replaces this node's kube-proxy. */
import { kubeProxyProcesses } from "../backend/take_over.ts";
import type { CommandOf } from "../config/command.ts";
import type { Run } from "../config/load.ts";
import { serviceOf } from "../model/cluster/names.ts";
import type { Mode } from "../model/configuration.ts";
import type { Finding } from "../model/status.ts";
import { familyOf, isLoopback } from "../model/values/address.ts";
import { count, shortList } from "../model/values/text.ts";
import { describeUnsupported } from "../model/kernel/traits.ts";
import { describeConflicts } from "../policy/service_claims.ts";
import { desiredNode, takesNodePorts } from "../policy/node.ts";
import { findNodeProblems } from "./check.ts";
import type { QueryContext } from "./context.ts";
import { type NodeState, readNodeState } from "./objects.ts";
import { type Paint, renderReport } from "./output.ts";

/** Prints the changes, and makes none. @returns 1 if a Service changes, else 0 @throws {FatalError} */
export async function migrate(
  { timeout }: CommandOf<"migrate">,
  context: QueryContext & Pick<Run, "warnings">,
): Promise<number> {
  const { nodeName, runtime, warnings } = context;
  const known = await readNodeState({ ...context, timeout });
  const { state: { desired }, backend } = known;
  const [{ findings }, rules, processes] = await Promise.all([
    findNodeProblems(context),
    backend.foreignRules.findProxy(),
    kubeProxyProcesses(runtime),
  ]);
  const hasIpvs = runtime.interfaces().some(({ name }) => name === "kube-ipvs0");
  const from = hasIpvs ? "ipvs" : modeOf(rules);
  // kube-proxy runs in a pod, or as a unit of this node.
  const [pid = "self"] = /\d+/.exec(processes.join()) ?? [];
  const { stdout: cgroup } = await runtime.runner.run(["cat", `/proc/${pid}/cgroup`]);
  const ofNode = findings.filter(({ drops, services }) => drops && services.length === 0);
  const closed = closedAddresses(known, { ...context, from });
  const found = {
    title: `${nodeName}: kube-proxy ${from === "" ? "has no rules here" : `in ${from} mode`}, ` +
      `signpost would use ${backend.traits.name}`,
    general: [...warnings, ...ofNode.map(textOf)],
    changes: [...Map.groupBy(changesOf(known, { findings, closed }), ([service]) => service)],
    command: cgroup.includes("kubepods")
      ? `examples/install/take-over-node.sh ${nodeName}`
      : "systemctl disable --now kube-proxy && systemctl enable --now signpost",
  };
  const table = ({ title, general, changes, command }: typeof found, paint: Paint) =>
    [
      title,
      ...general.map((line) => `  ${paint(line, "yellow")}`),
      "",
      ...changes.flatMap(([service, all]) => [
        paint(service, "bold"),
        ...all.map(([, what]) => `  ${what}`),
      ]),
      ...changes.length > 0 ? [""] : [],
      `${count(desired.services.size, "Service")}: ` +
      `${desired.services.size - changes.length} unchanged, ${changes.length} would change`,
      `To switch, type: ${command}\n`,
    ].join("\n");
  await runtime.print(renderReport(found, { output: "table", runtime, table }));
  return found.changes.length > 0 ? 1 : 0;
}

/** Returns the mode of a kube-proxy that wrote these rules; `""`: there are none. */
function modeOf(rules: readonly string[]): Mode | "" {
  if (rules.some((each) => each.startsWith("table "))) return "nftables";
  return rules.length > 0 ? "iptables" : "";
}

/** Yields each change with its Service. */
function* changesOf(
  { state: { desired, refused, conflicts } }: NodeState,
  { findings, closed }: {
    readonly findings: readonly Finding[];
    readonly closed: readonly string[];
  },
): Generator<readonly [service: string, what: string]> {
  for (const { name, family, nodePort, protocol } of [...desired.services.values()].flat()) {
    const addresses = closed.filter((each) => familyOf(each) === family);
    if (nodePort === 0 || addresses.length === 0) continue;
    // Listeners serve TCP alone.
    const needsRules = protocol !== "tcp" && addresses.some(isLoopback);
    const how = needsRules ? "mode: iptables" : "nodePortAddresses: [all, localhost]";
    yield [
      serviceOf(name),
      `node port ${nodePort}/${protocol} does not answer on ${shortList(addresses)} any more; ` +
      `${how} keeps it`,
    ];
  }
  for (const each of findings) {
    for (const service of each.services) yield [service, textOf(each)];
  }
  for (const { kind, key, reason } of refused) {
    if (kind === "Service") yield [key, `signpost refuses it: ${reason}`];
  }
  for (const [loser, lost] of Map.groupBy(conflicts, ({ loser }) => loser)) {
    yield [loser, describeConflicts(lost)];
  }
  for (const each of desired.unsupported()) yield [each.service, describeUnsupported(each)];
}

function textOf({ what, remedy }: Finding): string {
  return `${what}; ${remedy}`;
}

/** Returns the addresses on which kube-proxy opens node ports by default, and signpost does not. */
function closedAddresses(
  { state: { cache, desired }, backend }: NodeState,
  { from, configuration, runtime }: QueryContext & { readonly from: Mode | "ipvs" | "" },
): readonly string[] {
  const traits = {
    ...backend.traits,
    primaryNodePorts: false,
    localhostNodePorts: "rules",
  } as const;
  const before = desiredNode({ configuration, traits, node: cache.node, serviceCIDRs: [] });
  return [...new Set(runtime.addresses())].filter((address) => {
    const [isOpened, staysOpen] = [before, desired.node].map((node) =>
      takesNodePorts(address, { node, isOwn: true })
    );
    const byDefault = { iptables: true, ipvs: !isLoopback(address), nftables: false, "": false };
    return byDefault[from] && isOpened && !staysOpen;
  });
}
