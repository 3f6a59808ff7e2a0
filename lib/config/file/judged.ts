/**
 * Which problems count: kube-proxy looks at the values of the settings that are used, and decodes all.
 *
 * @module
 */
import type { AskedMode, Configuration } from "../../model/configuration.ts";
import type { ProblemLine } from "./issues.ts";

/** The sections that only one mode reads. */
const MODE_SECTIONS = ["nftables", "iptables", "ipvs", "winkernel"];

/**
 * Whether a problem is an error. A field of another type always is. A value that is not allowed is
 * none in the section of a mode that is not used, nor in a cluster CIDR that detects nothing. Unknown
 * fields are none: kube-proxy decodes its file leniently.
 *
 * @param settings `mode`: as it was asked for; one left open may become nftables or iptables
 */
export function isJudged(
  { setting, kind }: ProblemLine,
  { mode, detectLocalMode }: {
    readonly mode: AskedMode;
    readonly detectLocalMode: Configuration["detectLocalMode"];
  },
): boolean {
  if (kind !== "value") return kind === "type";
  if (setting === "clusterCIDR") return detectLocalMode === "ClusterCIDR";
  const [section = ""] = setting.split(".");
  if (!MODE_SECTIONS.includes(section)) return true;
  return mode === "" ? section === "nftables" || section === "iptables" : section === mode;
}
