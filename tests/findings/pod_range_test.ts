import { assertEquals } from "@std/assert";
import { checkPodDetection, checkPodRange } from "../../lib/findings/addresses.ts";
import type { Configuration } from "../../lib/config/configuration.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { service, slice } from "../policy/objects.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { type ApiObject, NODE_NAME } from "../support/pipeline.ts";
import { factsOf } from "./facts.ts";

/** What is said of these objects, with pods in 10.244.0.0/16. */
function said(objects: readonly ApiObject[], interfaceAddresses: readonly string[] = []): string[] {
  const facts = factsOf(objects, {
    configuration: { clusterCIDRs: ["10.244.0.0/16"] },
    facts: { interfaceAddresses },
  });
  return atOnce(checkPodRange(facts)).map(({ what }) => what);
}

Deno.test("the first pod of this node outside the range of all pods is named", () => {
  const endpoints = [`10.244.0.1@${NODE_NAME}`, `10.88.0.1@${NODE_NAME}`, `10.88.0.2@${NODE_NAME}`];
  assertEquals(said([service("web"), slice("web", endpoints)]), [
    "the pod 10.88.0.1 of this node (default/web) is outside 10.244.0.0/16",
  ]);
});

Deno.test("a pod on the host's network, and a pod of another node, are not strays", () => {
  const objects = [service("web"), slice("web", [`10.88.0.1@${NODE_NAME}`, "10.88.0.2@node-2"])];
  assertEquals(said(objects, ["10.88.0.1"]), []);
});

Deno.test("an endpoint without a node, such as the API server, is no pod of this node", () => {
  const kubernetes = slice("kubernetes", ["10.88.0.1"]);
  const endpoints = [{ addresses: ["10.88.0.1"] }];
  assertEquals(said([service("kubernetes"), { ...kubernetes, endpoints }]), []);
});

Deno.test("very many Services are looked at in turns", () => {
  const names = Array.from({ length: 5_000 }, (_, i) => `s${i}`);
  const facts = factsOf(names.map((name) => service(name)), {
    configuration: { clusterCIDRs: ["10.244.0.0/16"] },
  });
  assertEquals([...checkPodRange(facts)].length, 50);
});

Deno.test("a node without a clusterCIDR or podCIDRs detects no pod, which masqueradeAll makes good", () => {
  const found = (configuration: Partial<Configuration>, podCIDRs: readonly string[] = []) => {
    const node = { kind: "Node", metadata: { name: NODE_NAME }, spec: { podCIDRs } };
    return checkPodDetection(factsOf([node], { configuration })).map(({ where }) => where);
  };
  assertEquals(found({ clusterCIDRs: [] }), ["clusterCIDR"]);
  assertEquals(found({ clusterCIDRs: ["10.244.0.0/16"] }), []);
  const nodeCIDR = { clusterCIDRs: [], detectLocalMode: "NodeCIDR" } as const;
  assertEquals(found(nodeCIDR), [`Node ${NODE_NAME}`]);
  assertEquals(found(nodeCIDR, ["10.244.0.0/24"]), []);
  const nftables = { ...DEFAULTS.nftables, masqueradeAll: true };
  assertEquals(found({ clusterCIDRs: [], nftables }), []);
});
