/** Reads our rules from the kernel, and compares rules and conntrack entries with the desired state. */
import type { Backend, PortsOfNode, StickyClient } from "../backend/backend.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import { plain } from "../model/values/text.ts";
import { error, note, sortFindings, warning } from "./finding.ts";
import type { ExplainFinding, KernelReport, Report, TrackedConnection } from "./report.ts";
import { connectionFindings } from "./traffic.ts";

/** The kernel's rules of some service ports. */
export interface KernelFacts extends KernelReport {
  readonly stickyClients: readonly StickyClient[];
  /** Rules of kube-proxy, such as `table ip kube-proxy`. */
  readonly kubeProxy: readonly string[];
}

/** The kernel's part of an answer. */
export interface KernelPart {
  readonly kernel: KernelFacts;
  /** `undefined`: not asked for. */
  readonly connections: readonly TrackedConnection[] | undefined;
}

/** Adds the kernel's part to a report. */
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

/** Returns the findings on the kernel's rules. */
function kernelFindings({ state, reason, entries, kubeProxy }: KernelFacts): ExplainFinding[] {
  const found = kubeProxy.map((what) =>
    warning(
      "kube-proxy-rules",
      `the kernel also has rules of kube-proxy (${what}): two proxies handle the same packets`,
      "stop kube-proxy, then start signpost again: it removes these rules",
    )
  );
  switch (state) {
    case "same":
      return found;
    case "unread":
      return [
        note(
          "kernel-unread",
          `the kernel's rules were not read: ${reason}`,
          "run signpost as root",
        ),
      ];
    case "empty":
      return [
        ...found,
        error(
          "no-rules",
          "the kernel has no rules of signpost",
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
