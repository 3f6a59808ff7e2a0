/**
 * The memory that one change allocates, whatever the machine. The pure core is run in this process, from a line of
 * the watch to the script for the kernel.
 *
 * @module
 */
import { getHeapStatistics } from "node:v8";
import { createDecoder } from "../../lib/source/objects/decode.ts";
import { Nft } from "../../lib/backend/nftables/nft.ts";
import { NftablesDataplane } from "../../lib/backend/nftables/dataplane.ts";
import { Pipeline } from "../../tests/support/pipeline.ts";
import { CLUSTER_CIDR, clusterObjects } from "../cluster.ts";
import type { StageOptions } from "../stage.ts";
import { Churn } from "./changes.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";

/** Changes whose work is not counted: the code is compiled meanwhile. */
const WARM_UP = 500;

const SILENT = { run: () => Promise.resolve({ code: 0, stdout: "", stderr: "" }) };

/** Returns the mean of the bytes that V8 allocates for a change, those of parsing the event included. */
export async function measureWork(
  options: StageOptions & { readonly changes: number },
): Promise<number> {
  const pipeline = new Pipeline({ configuration: { clusterCIDRs: [CLUSTER_CIDR] } });
  const { cache, desired } = pipeline;
  const dataplane = new NftablesDataplane(new Nft(SILENT));
  pipeline.load([...clusterObjects(options)]);
  await dataplane.apply(dataplane.full(desired));
  const decode = createDecoder();
  const follow = async (line: string) => {
    const decoded = decode("EndpointSlice", JSON.parse(line));
    if (decoded.type !== "upsert") throw new Error(`${decoded.type}: ${line}`);
    cache.apply(decoded);
    const { change } = desired.update(cache, cache.takeDirty());
    const script = atOnce(dataplane.changing(change, desired));
    if (script === undefined) throw new Error("the change of an endpoint asks for a full sync");
    await dataplane.apply(script);
  };
  const churn = new Churn(options);
  const lines = (length: number) =>
    Array.from({ length }, () => JSON.stringify(churn.next().slice));
  for (const line of lines(WARM_UP)) await follow(line);
  const measured = lines(options.changes);
  const before = allocated();
  for (const line of measured) await follow(line);
  return (allocated() - before) / options.changes;
}

/** Bytes that V8 has allocated so far. Deno has it, the types of Node do not know it yet. */
function allocated(): number {
  return Number(Reflect.get(getHeapStatistics(), "total_allocated_bytes"));
}
