/**
 * Removal of tables: our own, and kube-proxy's.
 *
 * @module
 */
import { ApplyError } from "../../../model/kernel/dataplane.ts";
import type { Logger } from "../../../model/ports/ports.ts";
import { IPVS_TABLE } from "../../ipvs_table.ts";
import type { Nft } from "./nft.ts";
import { TABLE } from "../script/objects.ts";

/** kube-proxy's tables in nftables mode (KEP-3866). */
export const KUBE_PROXY_TABLES: readonly string[] = ["ip kube-proxy", "ip6 kube-proxy"];

/** The table of `signpost explain --trace`, which is there for a second. */
export const TRACE_TABLE = "inet trace-signpost";

/** The tables that signpost makes; that of a trace stays only where it was killed. */
export const OWN_TABLES: readonly string[] = [TABLE, TRACE_TABLE, IPVS_TABLE];

/**
 * The commands that delete those of some tables that are there.
 *
 * @throws {ApplyError} where the tables cannot be listed
 */
export async function deleteTables(nft: Nft, tables: readonly string[]): Promise<string> {
  const present = new Set(await nft.listTables());
  return tables.filter((table) => present.has(table))
    .map((table) => `delete table ${table}\n`).join("");
}

/**
 * Deletes those of some tables that are there. An nft that crashes on another program's table can delete
 * none, but it can flush them: their rules go, and empty tables stay.
 *
 * @returns the commands that the kernel took
 * @throws {ApplyError} if it took none
 */
export async function removeTables(
  nft: Nft,
  { tables, logger }: { readonly tables: readonly string[]; readonly logger: Logger },
): Promise<string> {
  const script = await deleteTables(nft, tables);
  if (script === "") return "";
  try {
    await nft.apply(script);
    return script;
  } catch (error) {
    if (!(error instanceof ApplyError) || error.failure !== "unreadable") throw error;
    const flushes = script.replaceAll("delete table", "flush table");
    await nft.apply(flushes);
    logger.warn("tables cannot be deleted: their rules are flushed, and empty tables stay", {
      error: error.message,
    });
    return flushes;
  }
}
