/**
 * Which mode holds on this node: for commands that look at the kernel.
 *
 * @module
 */
import { desiredNode } from "../policy/node.ts";
import type { Configuration } from "../model/configuration.ts";
import { ApplyError } from "../model/dataplane.ts";
import { Nft } from "../backend/nftables/kernel/nft.ts";
import { TABLE } from "../backend/nftables/script/objects.ts";
import { probe } from "../backend/nftables/kernel/probe.ts";
import { familiesBut, missingFamilies } from "../backend/ip_families.ts";
import type { Runtime } from "../model/runtime.ts";

/**
 * The configured mode; where none is set, nftables if our table is there or could be, as the daemon
 * decides it.
 */
export async function activeMode(
  configuration: Configuration,
  { runner, readFile }: Pick<Runtime, "runner" | "readFile">,
): Promise<"nftables" | "iptables"> {
  if (configuration.mode !== "") return configuration.mode;
  const mode = "nftables";
  const nft = new Nft(runner);
  try {
    if ((await nft.listTables()).includes(TABLE)) return mode;
    const ipFamilies = familiesBut(await missingFamilies({ readFile }));
    const inputs = { configuration, mode, node: undefined, serviceCIDRs: [] } as const;
    await probe(nft, desiredNode({ ...inputs, ipFamilies }));
    return mode;
  } catch (error) {
    if (error instanceof ApplyError) return "iptables";
    throw error;
  }
}
