/**
 * Chooses how rules get into the kernel, and sees that it can be done.
 *
 * @module
 */
import { desiredNode } from "../desired/node.ts";
import type { Configuration } from "../model/configuration.ts";
import { ApplyError, type Dataplane } from "../model/dataplane.ts";
import type { ProcessRunner } from "../model/ports.ts";
import { NftablesDataplane } from "../nftables/dataplane.ts";
import { Nft } from "../nftables/nft.ts";
import { probe } from "../nftables/probe.ts";
import { FatalError } from "./fatal.ts";

/**
 * The nftables dataplane, after the kernel has been asked whether it can carry the rules.
 *
 * @throws {FatalError} that says what is missing
 */
export async function openNftables(
  configuration: Configuration,
  runner: ProcessRunner,
): Promise<Dataplane> {
  const nft = new Nft(runner);
  const node = desiredNode({ configuration, mode: "nftables", node: undefined, serviceCIDRs: [] });
  try {
    await probe(nft, node);
  } catch (error) {
    throw error instanceof ApplyError ? new FatalError(error.message, { cause: error }) : error;
  }
  return new NftablesDataplane(nft);
}
