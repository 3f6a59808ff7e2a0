/**
 * What was seen of the kernel, whichever mode it is in.
 *
 * @module
 */
import type { DesiredNode, DesiredServicePort } from "../../model/kernel/desired.ts";
import { error, note, warning } from "../service/finding.ts";
import type { KernelRules } from "../../backend/backend.ts";
import type { Finding, KernelReport } from "../report.ts";

/** What came of reading the kernel. */
export type KernelView =
  | {
    readonly type: "read";
    readonly rules: Pick<KernelRules, "entries" | "stickyClients">;
    /** Rules of kube-proxy that were seen, such as `table ip kube-proxy`. */
    readonly kubeProxy: readonly string[];
  }
  /** No rules of signpost's are there. */
  | { readonly type: "empty"; readonly kubeProxy: readonly string[] }
  | { readonly type: "unread"; readonly reason: string };

/** Compares some service ports with the kernel. */
export function kernelReport(
  ports: readonly DesiredServicePort[],
  { node, view }: { readonly node: DesiredNode; readonly view: KernelView },
): KernelReport {
  if (view.type === "unread") return { state: "unread", reason: view.reason, entries: [] };
  if (view.type === "empty") return { state: "empty", reason: "", entries: [] };
  const entries = view.rules.entries(ports, node);
  const isSame = entries.every(({ state }) => state === "same");
  return { state: isSame ? "same" : "different", reason: "", entries };
}

/** What the kernel's state means for traffic. */
export function kernelFindings(report: KernelReport, view: KernelView): Finding[] {
  const kubeProxy = view.type === "unread" ? [] : view.kubeProxy;
  return [
    ...kubeProxy.map((what) =>
      warning(
        "kube-proxy-rules",
        `rules of kube-proxy are in the kernel, too (${what}): two proxies take the same packets`,
        "stop kube-proxy, then: signpost cleanup --kube-proxy",
      )
    ),
    ...stateFindings(report),
  ];
}

function stateFindings({ state, reason, entries }: KernelReport): Finding[] {
  switch (state) {
    case "same":
      return [];
    case "unread":
      return [
        note("kernel-unread", `the kernel's rules were not read: ${reason}`, "run it as root"),
      ];
    case "empty":
      return [error(
        "no-rules",
        "the kernel holds no rules of signpost's",
        "start signpost, or see its log: journalctl -u signpost",
      )];
    case "different": {
      const wrong = entries.filter((each) => each.state !== "same");
      const [first] = wrong;
      const more = wrong.length > 1 ? ` and ${wrong.length - 1} more` : "";
      return [error(
        "kernel-differs",
        `the kernel does not hold what it should: ${first?.state} in ${first?.in}` +
          `${first?.key === "" ? "" : `: ${first?.key}`}${more}`,
        "signpost verify --fix asks the daemon for a full sync",
      )];
    }
  }
}
