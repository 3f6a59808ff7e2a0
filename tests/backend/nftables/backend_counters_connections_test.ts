import { assertEquals, assertRejects } from "@std/assert";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { ApplyError } from "../../../lib/model/kernel/dataplane.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { elementCounters } from "../../../lib/backend/nftables/backend.ts";

Deno.test("frontends are ours once the kernel has taken a full script", async () => {
  const result = { code: 1, stdout: "", stderr: "Error: No buffer space available" };
  const nft = new Nft({ run: () => Promise.resolve(result) });
  const dataplane = new NftablesDataplane(nft);
  const counters = elementCounters({ nft, dataplane });
  const { desired } = new Pipeline();
  await assertRejects(() => dataplane.apply(dataplane.full(desired)), ApplyError);
  assertEquals(counters.areOurs, false);
  result.code = 0;
  await dataplane.apply(dataplane.full(desired));
  assertEquals(counters.areOurs, true);
});
