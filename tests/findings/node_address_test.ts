import { assertEquals } from "@std/assert";
import { checkNodeAddress } from "../../lib/findings/addresses.ts";
import { node } from "../policy/objects.ts";
import { NODE_NAME } from "../support/pipeline.ts";
import { factsOf } from "./facts.ts";

const idsOf = (facts: Parameters<typeof checkNodeAddress>[0]) =>
  checkNodeAddress(facts).map(({ id }) => id);

Deno.test("a node of which no address is known opens node ports on all addresses", () => {
  assertEquals(idsOf(factsOf([])), ["node-address-unknown"]);
});

Deno.test("a missing Node is a finding in iptables mode, too", () => {
  assertEquals(idsOf(factsOf([], { mode: "iptables" })), ["node-unknown"]);
});

Deno.test("manifests may do without a Node", () => {
  const facts = factsOf([], { mode: "iptables" });
  const { configuration } = facts;
  const signpost = { ...configuration.signpost, manifests: ["x.yaml"] };
  assertEquals(idsOf({ ...facts, configuration: { ...configuration, signpost } }), []);
});

Deno.test("nothing is said of the Node before all lists are complete", () => {
  assertEquals(idsOf(factsOf([], { facts: { objects: undefined } })), []);
});

Deno.test("a Node whose address no interface has is named with it", () => {
  const facts = factsOf([node(["192.168.77.3"])], {
    facts: { interfaceAddresses: ["127.0.0.1", "192.168.77.2"] },
  });
  assertEquals(checkNodeAddress(facts).map(({ id, what, where }) => [id, what, where]), [[
    "node-address-elsewhere",
    `Node ${NODE_NAME} has 192.168.77.3; no interface here has it`,
    `Node ${NODE_NAME}`,
  ]]);
});

Deno.test("one address of the Node on an interface is enough", () => {
  const facts = factsOf([node(["203.0.113.1", "192.168.77.2"])], {
    facts: { interfaceAddresses: ["192.168.77.2"] },
  });
  assertEquals(idsOf(facts), []);
});
