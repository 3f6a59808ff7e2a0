import { assertEquals, assertGreater } from "@std/assert";
import { diffing, tableOf } from "../../../lib/backend/nftables/delta.ts";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import { clusterObjects } from "../../support/cluster.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { desiredPort } from "../desired_port.ts";

const SERVICES = 40;
const ENDPOINTS = 3;
/** Elements of a frontend. */
const FRONTEND = 1 + ENDPOINTS;
const WEIGHT = 20;

function changeFromNothing(weight: number) {
  const pipeline = new Pipeline();
  const { change } = pipeline.load([
    ...clusterObjects({ services: SERVICES, endpoints: ENDPOINTS }),
  ]);
  const nft = new Nft({ run: () => Promise.reject(new Error("nothing is run")) });
  const dataplane = new NftablesDataplane(nft, { weight });
  const script = atOnce(dataplane.changing({ ...change, node: undefined }, pipeline.desired));
  return script?.transactions ?? [];
}

Deno.test("a change of very many elements keeps a frontend in one part", () => {
  const [preparation = "", ...parts] = changeFromNothing(WEIGHT);
  assertEquals(preparation.includes("add element"), false);
  assertGreater(parts.length, 3);
  const frontends = parts.map((part) => [
    ...new Set(part.match(/\b10\.96\.\d+\.\d+ \. (?:tcp \. )?\d+/g)?.map(withoutProtocol)),
  ]);
  assertEquals(new Set(frontends.flat()).size, frontends.flat().length);
  for (const part of parts) {
    const elements = part.match(/^ {2}\S/gm)?.length ?? 0;
    assertEquals(elements < WEIGHT + FRONTEND, true, part);
  }
});

Deno.test("a change of fewer elements is new chains and sets, and then one transaction", () => {
  assertEquals(changeFromNothing(SERVICES * 100).length, 2);
});

Deno.test("a port with another number keeps the chains of its name, with other rules", () => {
  const [before, after] = [1, 2].map((last) =>
    desiredPort({
      port: 80 + last,
      affinitySeconds: 60,
      clusterEndpoints: [{ address: `10.244.0.${last}`, port: 80, local: true, hairpin: false }],
    })
  );
  if (!before || !after) throw new Error("no ports");
  const { desired: { node } } = new Pipeline();
  const references = atOnce(tableOf({ node, services: new Map([["shop/web", [before]]]) }))
    .references;
  const changes = [{ before: [before], after: [after] }];
  const delta = atOnce(diffing(changes, { node, references }));
  assertEquals(delta.rewriteChains.map(({ after: { name } }) => name.split("-", 1)), [[
    "affinity4",
  ]]);
  assertEquals([delta.addChains.length, delta.deleteChains.length], [1, 1]);
});

function withoutProtocol(key: string): string {
  return key.replace(" tcp .", "");
}
