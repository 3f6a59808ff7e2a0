/** Reads our rules from the kernel, and compares them and tracked connections with the desired state. */
import type { Backend, PortsOfNode, StickyClient } from "../backend/backend.ts";
import { splitHostPort } from "../model/cluster/names.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import { count, plain } from "../model/values/text.ts";
import { error, note, sortFindings, warning } from "./finding.ts";
import type { Finding, KernelReport, Report, TrackedConnection } from "./report.ts";

/** The kernel's rules of some service ports. */
export interface KernelFacts extends KernelReport {
  readonly stickyClients: readonly StickyClient[];
  /** Rules of kube-proxy that were seen, such as `table ip kube-proxy`. */
  readonly kubeProxy: readonly string[];
}

/** The part of an answer that the kernel gives. */
export interface KernelPart {
  readonly kernel: KernelFacts;
  /** `undefined`: not asked for. */
  readonly connections: readonly TrackedConnection[] | undefined;
}

/** Adds what the kernel holds to a report. @param kernel is compared with rules that the report is about */
export function withKernel<R extends Report>(report: R, { kernel, connections }: KernelPart): R {
  const { state, reason, entries } = kernel;
  return {
    ...report,
    findings: sortFindings([
      ...report.findings,
      ...kernelFindings(kernel),
      ...connectionFindings(connections),
    ]),
    kernel: { state, reason, entries },
    connections: connections ?? null,
  };
}

/** Reads the kernel's rules of some ports. If they cannot be read, the result says why. */
export async function readKernel(
  backend: Pick<Backend, "rules" | "foreignRules">,
  about: PortsOfNode,
): Promise<KernelFacts> {
  const nothing = { reason: "", entries: [], stickyClients: [], kubeProxy: [] };
  try {
    const [rules, kubeProxy] = await Promise.all([
      backend.rules.read(about),
      backend.foreignRules.findProxy(),
    ]);
    if (rules.isEmpty) return { ...nothing, state: "empty", kubeProxy };
    const entries = rules.entries(about.ports, about.node);
    const state = entries.every((each) => each.state === "same") ? "same" : "different";
    const stickyClients = rules.stickyClients(about.ports);
    return { ...nothing, state, entries, stickyClients, kubeProxy };
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    return { ...nothing, state: "unread", reason: plain(error.message) };
  }
}

/** Says what the kernel's state means for traffic. */
function kernelFindings({ state, reason, entries, kubeProxy }: KernelFacts): Finding[] {
  const found = kubeProxy.map((what) =>
    warning(
      "kube-proxy-rules",
      `rules of kube-proxy are in the kernel, too (${what}): two proxies take the same packets`,
      "stop kube-proxy, then start signpost again: it removes them",
    )
  );
  switch (state) {
    case "same":
      return found;
    case "unread":
      return [
        note("kernel-unread", `the kernel's rules were not read: ${reason}`, "run it as root"),
      ];
    case "empty":
      return [
        ...found,
        error(
          "no-rules",
          "the kernel holds no rules of signpost's",
          "start signpost, or see its log: journalctl -u signpost",
        ),
      ];
    case "different": {
      const [first, ...others] = entries.filter((each) => each.state !== "same");
      const key = first?.key === "" ? "" : `: ${first?.key}`;
      const more = others.length > 0 ? ` and ${others.length} more` : "";
      return [
        ...found,
        error(
          "kernel-differs",
          `the kernel differs from the desired rules: ${first?.state} in ${first?.in}${key}${more}`,
          "signpost verify --fix asks the daemon for a full sync",
        ),
      ];
    }
  }
}

/** Finds UDP flows to addresses that are no endpoints: they last for as long as packets come. */
export function connectionFindings(
  connections: readonly TrackedConnection[] | undefined,
): Finding[] {
  const stale = (connections ?? []).filter(({ protocol, isCurrent }) =>
    protocol === "udp" && !isCurrent
  );
  const [first] = stale;
  if (!first) return [];
  return [warning(
    "stale-conntrack",
    `${count(stale.length, "UDP flow")} ${stale.length === 1 ? "is" : "are"} tracked to what is ` +
      `no endpoint now, such as ${first.source} to ${first.destination} by ${first.endpoint}`,
    `conntrack -D -p udp --orig-dst ${splitHostPort(first.destination).hostname}`,
  )];
}
