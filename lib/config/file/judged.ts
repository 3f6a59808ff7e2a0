/**
 * Decides which problems are errors. kube-proxy decodes all settings, but validates only those in
 * use.
 *
 * @module
 */
import type { Configuration } from "../configuration.ts";
import type { AskedMode } from "../../model/configuration.ts";
import type { ProblemLine } from "./issues.ts";

/** The sections that only one mode reads. */
const MODE_SECTIONS = ["nftables", "iptables", "ipvs", "winkernel"];

/**
 * Returns true if a problem is an error. A field of another type always is.
 *
 * A bad value is no error in the section of an unused mode, or in an unused cluster CIDR. An
 * unknown field is none, because kube-proxy decodes its file leniently.
 *
 * @param settings `mode`: the configured one; without one it may become nftables or iptables
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
