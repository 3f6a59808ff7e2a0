/**
 * From the start of the process to the first state in the kernel.
 *
 * @module
 */
import { Daemon, printOnce } from "../daemon.ts";
import type { Stage } from "../stage.ts";
import { median } from "../statistics.ts";

/**
 * Medians, in milliseconds. `nft` alone has its turn after each start, while the daemon is halted, so
 * that both meet the same machine: memory that a virtual machine has not used yet is slow at first.
 */
export interface Start {
  /** From the start of the process until the kernel has everything. */
  readonly total: number;
  /** From the start of the process until all lists are read and decoded. */
  readonly lists: number;
  /** The first sync: desired state, script, and the kernel taking it. */
  readonly firstSync: number;
  /** `nft -f` alone, on the same script, into an empty kernel. */
  readonly nft: number;
  /** `firstSync / nft`, the median of the pairs. */
  readonly ratio: number;
  /** Length of the script. */
  readonly bytes: number;
}

/** Starts the daemon on an empty kernel some times. */
export async function measureStart(stage: Stage, runs: number): Promise<Start> {
  const starts = [];
  const script = await printScript(stage);
  for (let i = 0; i < runs; i++) {
    const start = await startOnce(stage, script);
    starts.push({ ...start, ratio: start.firstSync / start.nft });
  }
  await stage.flush();
  return {
    total: median(starts.map((start) => start.total)),
    lists: median(starts.map((start) => start.lists)),
    firstSync: median(starts.map((start) => start.firstSync)),
    nft: median(starts.map((start) => start.nft)),
    ratio: median(starts.map((start) => start.ratio)),
    bytes: starts[0]?.bytes ?? 0,
  };
}

async function startOnce(stage: Stage, script: string) {
  await stage.flush();
  await using daemon = Daemon.start({
    namespace: stage.namespace,
    kubeconfig: stage.api.kubeconfig,
  });
  const started = await daemon.started();
  const synced = await daemon.firstSync();
  daemon.halt();
  await stage.flush();
  const { milliseconds: nft } = await stage.run(["nft", "-f", script]);
  const listed = daemon.lines.filter(({ msg }) => msg.startsWith("listed "));
  return {
    total: synced.time - started,
    lists: Math.max(...listed.map(({ time }) => time)) - started,
    firstSync: Number(synced["seconds"]) * 1000,
    bytes: Number(synced["bytes"]),
    nft,
  };
}

/** The script that the daemon gives to `nft`, in a file. */
async function printScript(stage: Stage): Promise<string> {
  const { namespace, folder, api } = stage;
  const path = `${folder}/script.nft`;
  const text = await printOnce({ namespace, kubeconfig: api.kubeconfig });
  await Deno.writeTextFile(path, text);
  return path;
}
