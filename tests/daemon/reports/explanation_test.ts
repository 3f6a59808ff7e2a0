import { assertEquals } from "@std/assert";
import { explanation } from "../../../lib/daemon/reports/explanation.ts";
import { openSource } from "../../../lib/daemon/objects/source.ts";
import { KINDS } from "../../../lib/model/cluster/objects.ts";
import type { ServiceReport } from "../../../lib/explain/report.ts";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import { CLUSTER, loadBalancer, slice } from "../../explain/cluster.ts";
import { world } from "../../cli/runtime.ts";
import { ApiServer } from "../../support/api_server.ts";
import { realClock } from "../../support/clock_and_log.ts";
import { configuration } from "../../support/configuration.ts";
import { type ApiObject, replacement } from "../../support/pipeline.ts";
import { newParts } from "../parts.ts";

/** A load balancer that waits for its address, and whose selector matches nothing. */
const PENDING: ApiObject = { ...loadBalancer(), status: {} };

/** Explains `shop/web` in a daemon whose API server answers after some milliseconds, or not at all. */
async function explainBehind(options: { readonly delay?: number; readonly isSilent?: boolean }) {
  await using server = new ApiServer(options);
  await server.start();
  server.store.put(PENDING);
  if (options.isSilent) server.faults.add({ type: "stall", count: 9 });
  const { runtime: usual, logger } = world();
  // Without an answer, the time limit is over at once.
  const runtime = { ...usual, addresses: () => [], ...!options.isSilent && { clock: realClock } };
  const signal = new AbortController().signal;
  const daemon = { configuration: configuration({ master: server.url }), runtime, logger, signal };
  const source = await openSource({ ...daemon, nodeName: "node-1" });
  using _ = { [Symbol.dispose]: () => source.api?.close() };
  const parts = newParts({ ...daemon, source });
  const decode = createDecoder();
  for (const kind of KINDS) {
    const objects = [...CLUSTER, PENDING, slice([])].filter((each) => each.kind === kind);
    parts.cache.apply(replacement(kind, objects.map((each) => decode(kind, each))));
  }
  parts.desired.update(parts.cache, parts.cache.takeDirty());
  const answer = await explanation(parts, new URLSearchParams({ question: "shop/web" }));
  const { type, selector, findings } = (answer as { report: ServiceReport }).report;
  return { type, selector, codes: findings.map(({ code }) => code) };
}

const CODES = ["selector-matches-nothing", "load-balancer-pending"];

for (const delay of [0, 80, 400]) {
  Deno.test(`an API server that is ${delay} ms away changes no answer`, async () => {
    assertEquals(await explainBehind({ delay }), {
      type: "LoadBalancer",
      selector: "app=web",
      codes: CODES,
    });
  });
}

Deno.test("the findings stay without an answer of the API server", async () => {
  assertEquals(await explainBehind({ isSilent: true }), {
    type: "LoadBalancer",
    selector: "",
    codes: [...CODES, "objects-not-read"],
  });
});
