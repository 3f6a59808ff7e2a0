/** Traces packets of this node, with nft in every mode. */
import type { PacketTarget } from "../config/command.ts";
import type { ProcessRunner } from "../model/ports/ports.ts";
import { familyOf, NFT_FAMILY } from "../model/values/address.ts";
import { Nft, TRACE_TABLE } from "./nftables/nft.ts";
import { LAST_CHAIN } from "./nftables/layout.ts";

export { LAST_CHAIN, TRACE_TABLE };

/** The last chains of an outgoing packet, in either mode. */
export const WAYS_OUT: readonly string[] = [LAST_CHAIN, "POSTROUTING"];

type Traced = Omit<PacketTarget, "type">;

/** Traces new connections. @throws {ApplyError} if the kernel refuses it */
export function startTrace(runner: ProcessRunner, packet: Traced): Promise<void> {
  return new Nft(runner).apply(traceScript(packet));
}

/** Ends the trace. It does not fail if the kernel refused the trace. */
export async function endTrace(runner: ProcessRunner): Promise<void> {
  await runner.run(["nft", "delete", "table", ...TRACE_TABLE.split(" ")]);
}

export function traceScript({ source, address, port, protocol }: Traced): string {
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
