/**
 * Which mode holds on this node, and what it cannot do: for commands that look at the kernel.
 *
 * @module
 */
import { desiredNode } from "../../policy/node.ts";
import type { Family } from "../../model/values/address.ts";
import type { RefusedFeatures } from "../../model/kernel/features.ts";
import type { Service } from "../../model/cluster/objects.ts";
import type { Configuration } from "../../model/configuration.ts";
import { ApplyError } from "../../model/kernel/dataplane.ts";
import { Nft } from "../../backend/nftables/kernel/nft.ts";
import { TABLE } from "../../backend/nftables/script/objects.ts";
import { probe } from "../../backend/nftables/kernel/probe.ts";
import { familiesBut, missingFamilies } from "../../backend/ip_families.ts";
import type { Runtime } from "../../model/ports/runtime.ts";

/**
 * The configured mode; where none is set, nftables if our table is there or could be, as the daemon
 * decides it.
 */
export async function activeMode(
  configuration: Configuration,
  { runner, hasIpv6, osRelease }: Pick<Runtime, "runner" | "hasIpv6" | "osRelease">,
): Promise<"nftables" | "iptables"> {
  if (configuration.mode !== "") return configuration.mode;
  const mode = "nftables";
  const nft = new Nft(runner);
  try {
    if ((await nft.listTables()).includes(TABLE)) return mode;
    const ipFamilies = familiesBut(missingFamilies({ hasIpv6 }));
    const inputs = { configuration, mode, node: undefined, serviceCIDRs: [] } as const;
    await probe(nft, { node: desiredNode({ ...inputs, ipFamilies }), kernel: osRelease() });
    return mode;
  } catch (error) {
    if (error instanceof ApplyError) return "iptables";
    throw error;
  }
}

/** What the features are asked about. */
interface FeatureInputs {
  readonly configuration: Configuration;
  readonly mode: "nftables" | "iptables";
  readonly ipFamilies: readonly Family[];
  readonly runtime: Pick<Runtime, "runner" | "osRelease">;
  readonly services: Iterable<Service>;
}

/**
 * What only some Services need, and nft or the kernel refuses here. Asked only where a Service needs
 * it; where it cannot be asked (without root, say), nothing is refused.
 */
export async function refusedFeatures(inputs: FeatureInputs): Promise<RefusedFeatures> {
  const { configuration, mode, ipFamilies, runtime, services } = inputs;
  const isNeeded = [...services].some(({ sourceRanges, affinitySeconds }) =>
    sourceRanges.length > 0 || affinitySeconds > 0
  );
  if (mode === "iptables" || !isNeeded) return new Map();
  const node = desiredNode({ configuration, mode, node: undefined, serviceCIDRs: [], ipFamilies });
  try {
    return await probe(new Nft(runtime.runner), { node, kernel: runtime.osRelease() });
  } catch (error) {
    if (error instanceof ApplyError) return new Map();
    throw error;
  }
}
