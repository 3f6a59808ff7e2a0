/**
 * Finds out whether this kernel and this `nft` can carry signpost's rules, and what is missing if not.
 *
 * @module
 */
import { ApplyError, type ApplyFailure } from "../../../model/dataplane.ts";
import type { DesiredNode } from "../../../model/desired.ts";
import { FullScript } from "../script/full_script.ts";
import type { Nft } from "./nft.ts";
import { PROBE_SERVICES } from "./probe_services.ts";

/** Expressions that the rules use, each by itself, with the kernel option that brings it. */
const FEATURES: readonly (readonly [name: string, option: string, rule: string])[] = [
  ["fib", "CONFIG_NFT_FIB_INET", "fib saddr type local accept"],
  ["numgen", "CONFIG_NFT_NUMGEN", "numgen random mod 2 vmap { 0 : accept }"],
  ["ct", "CONFIG_NFT_CT", "ct state new accept"],
  ["reject", "CONFIG_NFT_REJECT_INET", "reject"],
  ["dnat", "CONFIG_NFT_NAT", "meta l4proto tcp dnat ip to 192.0.2.1:80"],
  ["masquerade", "CONFIG_NFT_MASQ", "masquerade fully-random"],
];

/** Failures that say nothing of what the kernel can do. */
const NOT_OF_THE_KERNEL: ReadonlySet<ApplyFailure> = new Set([
  "not-permitted",
  "program-missing",
  "program-failed",
]);

const HOOKS: Readonly<Record<string, string>> = {
  dnat: "nat hook prerouting priority -100",
  masquerade: "nat hook postrouting priority 100",
};

/**
 * Has the kernel check a table with every expression that signpost may use, and takes nothing.
 *
 * @param nft the program
 * @param node the node's part of the rules
 * @throws {ApplyError} that says what is missing and how to get it
 */
export async function probe(nft: Nft, node: DesiredNode): Promise<void> {
  const services = PROBE_SERVICES.filter(({ family }) => node.ipFamilies.includes(family));
  const { text } = new FullScript({ node, services: new Map([["probe", services]]) });
  try {
    await nft.check(text);
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    if (NOT_OF_THE_KERNEL.has(error.failure)) throw error;
    throw new ApplyError("not-supported", await explain(nft, error), { cause: error });
  }
}

/** Tries each feature by itself. */
async function explain(nft: Nft, whole: ApplyError): Promise<string> {
  const missing: string[] = [];
  for (const [name, option, rule] of FEATURES) {
    const hook = HOOKS[name] ?? "filter hook input priority 0";
    const table =
      `table inet signpost-probe {\n  chain probe {\n    type ${hook};\n    ${rule}\n  }\n}\n`;
    try {
      await nft.check(table);
    } catch {
      missing.push(`${name} (kernel option ${option})`);
    }
  }
  const version = await nft.version().catch(() => "");
  return missing.length > 0
    ? `this kernel lacks what the rules need: ${
      missing.join(", ")
    }; load the module, use a kernel ` +
      "that has it, or run with --proxy-mode iptables"
    : `nft ${version} and this kernel do not take the rules (nft 1.0.1 and Linux 5.13 or newer are ` +
      `needed): ${whole.message}`;
}
