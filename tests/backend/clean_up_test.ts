import { assert, assertEquals } from "@std/assert";
import { cleanUp } from "../../lib/backend/clean_up.ts";
import { MemoryLogger } from "../support/clock_and_log.ts";
import { applied, differences } from "./contract.ts";
import { iptablesStage, type KernelStage, nftablesStage } from "./contract_stage.ts";
import { VARIANTS } from "./iptables/kernel.ts";

const STAGES: readonly (readonly [string, () => Promise<KernelStage>])[] = [
  ["nftables", nftablesStage],
  ...VARIANTS.map((variant) => [`iptables${variant}`, () => iptablesStage(variant)] as const),
];

for (const [name, open] of STAGES) {
  Deno.test(`${name}: a clean-up leaves nothing`, async () => {
    await using stage = await open();
    const { desired } = await applied(stage);
    let printed = "";
    const clean = (dryRun: boolean) =>
      cleanUp({
        kubeProxy: false,
        dryRun,
        excluded: [],
        removed: ({ script }) => {
          printed += script;
          return Promise.resolve();
        },
        runner: stage.runner,
        logger: new MemoryLogger(),
      });
    assertEquals(await clean(true), []);
    assert(printed !== "");
    assertEquals(await differences(stage, desired), [], "a dry run removes nothing");
    assertEquals(await clean(false), []);
    assertEquals((await stage.backend.rules.read()).isEmpty, true);
    printed = "";
    assertEquals([await clean(true), printed], [[], ""]);
  });
}
