/**
 * `deno task bench --hostile`: how the work grows with each dimension of hostile objects.
 *
 * Objects of one, two and four times a size are decoded and become desired state and a script, with
 * no limit in force. An exponent of 1 is linear work.
 *
 * @module
 */
import { IptablesDataplane } from "../lib/backend/iptables/dataplane.ts";
import { NftablesDataplane } from "../lib/backend/nftables/dataplane.ts";
import { Nft } from "../lib/backend/nftables/nft.ts";
import { DEFAULTS } from "../tests/support/configuration.ts";
import { type ApiObject, Pipeline } from "../tests/support/pipeline.ts";
import { COSTLY_KINDS } from "../tests/fuzz/costly.ts";
import { print } from "./report.ts";

/** The first of three sizes. */
const SIZE = 4_000;
const RUNS = 5;
const NO_LIMITS = { service: 1e9, namespace: 1e9 };
const NOT_RUN = () => Promise.reject(new Error("nothing is run"));

/** The least milliseconds of several runs. */
function measure(mode: "nftables" | "iptables", objects: readonly ApiObject[]): number {
  let least = Infinity;
  for (let run = 0; run < RUNS; run++) {
    const began = performance.now();
    const signpost = { ...DEFAULTS.signpost, limits: NO_LIMITS };
    const pipeline = new Pipeline({ mode, configuration: { signpost } });
    pipeline.load(objects);
    const plane = mode === "nftables"
      ? new NftablesDataplane(new Nft({ run: NOT_RUN }))
      : new IptablesDataplane({
        runner: { run: NOT_RUN },
        iptables: { backend: "-nft", families: [4], tcpBeLiberal: false },
        routeLocalnet: NOT_RUN,
      });
    plane.full(pipeline.desired).text;
    least = Math.min(least, performance.now() - began);
  }
  return least;
}

/** Prints a row for each mode and dimension. */
export function hostile(): void {
  print(`| mode | dimension | ${SIZE} | ${2 * SIZE} | ${4 * SIZE} | exponent |\n`);
  print("|---|---|---|---|---|---|\n");
  for (const mode of ["nftables", "iptables"] as const) {
    for (const [name, objects] of Object.entries(COSTLY_KINDS)) {
      const times = [SIZE, 2 * SIZE, 4 * SIZE].map((each) => measure(mode, objects(each)));
      const [first = 1, , last = 1] = times;
      const exponent = Math.log2(last / first) / 2;
      const cells = times.map((each) => `${each.toFixed(1)} ms`);
      print(`| ${mode} | ${name} | ${cells.join(" | ")} | ${exponent.toFixed(2)} |\n`);
    }
  }
}
