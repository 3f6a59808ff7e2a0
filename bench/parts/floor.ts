/**
 * The floor: what `nft` alone takes, whoever calls it.
 *
 * @module
 */
import { newAddress } from "../cluster.ts";
import { Commits } from "../commits.ts";
import type { Stage } from "../stage.ts";
import { median, quantile } from "../statistics.ts";

/** Milliseconds of one `nft -f` that replaces one element of a map, from its start to its end. */
export interface Floor {
  readonly p50: number;
  readonly p99: number;
  /** Milliseconds until the kernel has committed it, before `nft` has ended. */
  readonly visible: number;
}

/** Addresses that no churn has come to. */
const FIRST_SERIAL = 0x200000;

const TABLE = `add table inet bench
add map inet bench slots { typeof ip daddr . tcp dport . numgen random mod 2 : ip daddr . tcp dport; }
add element inet bench slots ${slot(0)}
`;

/** Measures beside whatever rules are in the namespace. */
export async function measureFloor(stage: Stage, runs: number): Promise<Floor> {
  await stage.run(["nft", "-f", "-"], TABLE);
  const times: number[] = [];
  const visible: number[] = [];
  {
    await using commits = new Commits(stage);
    for (let i = 0; i < runs; i++) {
      const seen = commits.seen(newAddress(FIRST_SERIAL + i + 1));
      const start = performance.now();
      times.push((await stage.run(["nft", "-f", "-"], replaceElement(i))).milliseconds);
      visible.push(await seen - start);
    }
  }
  await stage.run(["nft", "delete", "table", "inet", "bench"]);
  return { p50: median(times), p99: quantile(times, 0.99), visible: median(visible) };
}

function replaceElement(run: number): string {
  return `delete element inet bench slots ${slot(run)}\n` +
    `add element inet bench slots ${slot(run + 1)}\n`;
}

function slot(run: number): string {
  return `{ 10.0.0.1 . 80 . 0 : ${newAddress(FIRST_SERIAL + run)} . 80 }`;
}
