import { assert, assertEquals } from "@std/assert";
import { cleanUp } from "../../lib/backend/clean_up.ts";
import { MemoryLogger } from "../support/clock_and_log.ts";
import { applied, differences } from "./contract.ts";
import { KERNEL_STAGES } from "./contract_stage.ts";

for (const [name, open] of KERNEL_STAGES) {
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
