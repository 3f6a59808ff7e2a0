/** Traces packets of this node. nft does it in every mode. */
import type { Protocol } from "../model/cluster/objects.ts";
import type { ProcessRunner } from "../model/ports/ports.ts";
import { familyOf, NFT_FAMILY } from "../model/values/address.ts";
import { Nft, TRACE_TABLE } from "./nftables/nft.ts";
import { LAST_CHAIN } from "./nftables/layout.ts";

export { LAST_CHAIN, TRACE_TABLE };

/** The last chains of an outgoing packet, in either mode. */
export const WAYS_OUT: readonly string[] = [LAST_CHAIN, "POSTROUTING"];

interface Destination {
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/** Traces new connections from `source`, or any address of this node. @throws {ApplyError} if the kernel refuses it */
export function startTrace(
  runner: ProcessRunner,
  { source, ...destination }: Destination & { readonly source: string | undefined },
): Promise<void> {
  return new Nft(runner).apply(traceScript(destination, source));
}

/** Ends the trace. A trace that the kernel refused is no error. */
export async function endTrace(runner: ProcessRunner): Promise<void> {
  await runner.run(["nft", "delete", "table", ...TRACE_TABLE.split(" ")]);
}

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
