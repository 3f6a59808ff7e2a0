/** One tenant changes very much at once: another's change is written before all of it is. */
import { assertEquals } from "@std/assert";
import { ADDRESSES, type Manifest, service, slice } from "../cluster.ts";
import { Stage } from "../stage.ts";
import { service as buildService, slice as buildSlice } from "../../support/cluster.ts";

const a = ADDRESSES[4];
const SERVICES = 20;
const ENDPOINTS = 200;

/** Services of another namespace: 20 elements for each endpoint. */
const MANY: readonly Manifest[] = Array.from({ length: SERVICES }, (_, i) => {
  const [namespace, name] = ["evil", `s${i}`];
  const externalIPs = Array.from({ length: 19 }, (_, k) => `192.0.${i}.${k}`);
  const endpoints = Array.from({ length: ENDPOINTS }, (_, k) => `10.128.${i}.${k}`);
  return [
    buildService({ namespace, name, clusterIP: `10.96.9.${i + 1}`, externalIPs }),
    buildSlice({ namespace, service: name, endpoints }),
  ];
}).flat();

Deno.test("a change of one Service does not wait for all that another namespace changes", async () => {
  await using stage = await Stage.create({ objects: [service(a), slice(a, ["local1"])] });
  await using signpost = await stage.startSynced();
  stage.apply(...MANY, slice(a, ["local2"]));
  await stage.flowsBecome(signpost, [{ from: "pod", to: a.clusterIP, reaches: ["local2"] }]);
  await stage.tableBecomesExpected(signpost);
  const partial = signpost.log.split("\n").filter((line) => line.includes(" synced kind=partial "));
  const operations = partial.map((line) => Number(/operations=(\d+)/.exec(line)?.[1]));
  assertEquals(operations.every((count) => count < 10_000), true, operations.join(" "));
  assertEquals(operations.length >= 10, true, operations.join(" "));
});
