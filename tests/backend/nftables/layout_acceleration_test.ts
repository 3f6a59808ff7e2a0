import { assertEquals } from "@std/assert";
import { fixedChains } from "../../../lib/backend/nftables/layout.ts";
import { DEFAULTS } from "../../support/configuration.ts";
import { Pipeline } from "../../support/pipeline.ts";

/** The rules that lead to the fast path. */
function rulesFor(...interfaces: readonly string[]): readonly string[] | undefined {
  const acceleration = { interfaces, packets: 7, services: "all" } as const;
  const signpost = { ...DEFAULTS.signpost, acceleration };
  const { desired } = new Pipeline({ configuration: { signpost } });
  return fixedChains(desired.node).find(({ name }) => name === "filter-forward-established")?.rules;
}

const BEGIN = "ct status dnat ct packets > 7";

Deno.test("only connections between the interfaces take the fast path", () => {
  assertEquals(rulesFor("veth*"), [`${BEGIN} iifname "veth*" oifname "veth*" goto accelerate`]);
  const set = '{ "eth0", "veth*" }';
  assertEquals(rulesFor("eth0", "veth*"), [
    `${BEGIN} iifname ${set} oifname ${set} goto accelerate`,
  ]);
});

Deno.test("a pattern that another one covers is left out: nft refuses overlaps", () => {
  assertEquals(rulesFor("eth0", "eth*", "eth*", "eth1*"), [
    `${BEGIN} iifname "eth*" oifname "eth*" goto accelerate`,
  ]);
});

Deno.test("all interfaces need no match", () => {
  assertEquals(rulesFor("eth0", "*"), [`${BEGIN} goto accelerate`]);
  assertEquals(rulesFor(), undefined);
});
