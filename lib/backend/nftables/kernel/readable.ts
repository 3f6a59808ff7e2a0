/**
 * What nft cannot read.
 *
 * @module
 */
import { ApplyError } from "../../../model/kernel/dataplane.ts";

/** What a reading gives; `""` where nft fails at it: what cannot be read is written again. */
export async function readable(read: () => Promise<string>): Promise<string> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof ApplyError) return "";
    throw error;
  }
}
