/**
 * Rules that have the kernel trace packets of this node; nft does so in every mode.
 *
 * @module
 */
import type { Protocol } from "../model/cluster/objects.ts";
import type { ProcessRunner } from "../model/ports/ports.ts";
import { familyOf } from "../model/values/address.ts";
import { Nft } from "./nftables/kernel/nft.ts";
import { TRACE_TABLE } from "./nftables/kernel/tables.ts";
import { LAST_CHAIN } from "./nftables/script/layout.ts";
import { NFT_FAMILY } from "./nftables/script/set_rows.ts";

export { LAST_CHAIN, TRACE_TABLE };

/** The chains that a packet meets on its way out, in either mode. */
export const WAYS_OUT: readonly string[] = [LAST_CHAIN, "POSTROUTING"];

/** Where traced packets go to. */
interface Destination {
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/**
 * Has the kernel trace this node's new connections to a destination.
 *
 * @param source an address of this node; `undefined`: any
 * @throws {ApplyError} where the kernel does not allow it
 */
export function startTrace(
  runner: ProcessRunner,
  { source, ...destination }: Destination & { readonly source: string | undefined },
): Promise<void> {
  return new Nft(runner).apply(traceScript(destination, source));
}

/** Ends it; a trace that the kernel refused is no error. */
export async function endTrace(runner: ProcessRunner): Promise<void> {
  await runner.run(["nft", "delete", "table", ...TRACE_TABLE.split(" ")]);
}

/** The script of a trace. */
export function traceScript(
  { address, port, protocol }: Destination,
  source: string | undefined,
): string {
  const ip = NFT_FAMILY[familyOf(address)];
  const from = source === undefined ? "" : `${ip} saddr ${source} `;
  const first = protocol === "tcp" ? "tcp flags & (syn | ack) == syn " : "";
  return `add table ${TRACE_TABLE}
delete table ${TRACE_TABLE}
table ${TRACE_TABLE} {
  chain output {
    type filter hook output priority -300
    ${from}${ip} daddr ${address} ${protocol} dport ${port} ${first}meta nftrace set 1
  }
}
`;
}
