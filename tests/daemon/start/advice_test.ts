import { assertEquals, assertMatch } from "@std/assert";
import { Advice } from "../../../lib/daemon/start/advice.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import { MemoryLogger } from "../../support/clock_and_log.ts";
import { service, slice } from "../../policy/objects.ts";
import { DEFAULTS } from "../../support/configuration.ts";
import { type ApiObject, NODE_NAME, Pipeline } from "../../support/pipeline.ts";
import { type Mode, traitsOf } from "../../support/modes.ts";

/** What is warned of when these objects come, with pods in 10.244.0.0/16. */
function warningsOf(objects: readonly ApiObject[], own: readonly string[] = []): unknown[] {
  const pipeline = new Pipeline({ configuration: { clusterCIDRs: ["10.244.0.0/16"] } });
  const logger = new MemoryLogger();
  const advice = new Advice({
    node: () => pipeline.desired.node,
    ownAddresses: () => own,
    cache: { complete: false, node: undefined },
    configuration: DEFAULTS,
    traits: traitsOf("nftables"),
    nodeName: NODE_NAME,
    logger,
  });
  atOnce(advice.advising(pipeline.load(objects).change));
  return logger.entries.map(({ level, fields }) => [level, fields["address"]]);
}

Deno.test("a node of which no address is known is warned of once", () => {
  const { cache, desired } = new Pipeline();
  const adviceOf = (complete: boolean, mode: Mode) => {
    const logger = new MemoryLogger();
    const advice = new Advice({
      node: () => desired.node,
      ownAddresses: () => [],
      cache: { complete, node: cache.node },
      configuration: DEFAULTS,
      traits: traitsOf(mode),
      nodeName: NODE_NAME,
      logger,
    });
    for (let sync = 0; sync < 2; sync++) {
      atOnce(advice.advising({ node: undefined, services: new Map() }));
    }
    return logger.messages;
  };
  const [message = "", ...more] = adviceOf(true, "nftables");
  assertMatch(message, /--hostname-override.*nodePortAddresses/);
  assertEquals(more, []);
  assertEquals(adviceOf(false, "nftables"), [], "the Node may yet come");
  const [open = "", ...others] = adviceOf(true, "iptables");
  assertMatch(open, /^nodePortAddresses is not set: node ports answer on all addresses/);
  assertEquals(others, [], "node ports are on all addresses there anyhow");
});

Deno.test("a pod of this node outside the range of all pods is warned of", () => {
  const objects = [service("web"), slice("web", [`10.88.0.1@${NODE_NAME}`])];
  assertEquals(warningsOf(objects), [["warn", "10.88.0.1"]]);
});

Deno.test("a pod that stays as it was is outside where the range is another one", () => {
  const logger = new MemoryLogger();
  const pipeline = new Pipeline({ configuration: { clusterCIDRs: ["10.244.0.0/16"] } });
  let { node } = pipeline.desired;
  const advice = new Advice({
    node: () => node,
    ownAddresses: () => [],
    cache: { complete: false, node: undefined },
    configuration: DEFAULTS,
    traits: traitsOf("nftables"),
    nodeName: NODE_NAME,
    logger,
  });
  const { change } = pipeline.load([service("web"), slice("web", [`10.244.0.1@${NODE_NAME}`])]);
  atOnce(advice.advising(change));
  const services = new Map(
    [...change.services].map(([key, { after }]) => [key, { before: after, after }] as const),
  );
  const other = {
    ...node.families[4],
    localDetector: { type: "cidr", cidr: "10.0.0.0/24" } as const,
  };
  const [before, after] = [node, { ...node, families: { ...node.families, 4: other } }];
  node = after;
  atOnce(advice.advising({ node: undefined, services }));
  assertEquals(logger.messages, [], "nothing has changed by that step");
  atOnce(advice.advising({ node: { before, after }, services }));
  assertEquals(logger.messages.length, 1);
});

Deno.test("very many Services are looked at in turns", () => {
  const pipeline = new Pipeline({ configuration: { clusterCIDRs: ["10.244.0.0/16"] } });
  const names = Array.from({ length: 5_000 }, (_, i) => `s${i}`);
  const advice = new Advice({
    node: () => pipeline.desired.node,
    ownAddresses: () => [],
    cache: { complete: false, node: undefined },
    configuration: DEFAULTS,
    traits: traitsOf("nftables"),
    nodeName: NODE_NAME,
    logger: new MemoryLogger(),
  });
  const { change } = pipeline.load(names.map((name) => service(name)));
  assertEquals([...advice.advising(change)].length, 50);
});

Deno.test("a pod on the host's network, and one of another node, are not", () => {
  const objects = [service("web"), slice("web", [`10.88.0.1@${NODE_NAME}`, "10.88.0.2@node-2"])];
  assertEquals(warningsOf(objects, ["10.88.0.1"]), []);
});

Deno.test("an endpoint of which no slice says the node is no pod of this node, as the API server's", () => {
  const kubernetes = slice("kubernetes", ["10.88.0.1"]);
  const endpoints = [{ addresses: ["10.88.0.1"] }];
  assertEquals(warningsOf([service("kubernetes"), { ...kubernetes, endpoints }]), []);
});

Deno.test("external addresses that are spread by a hash are told of be-liberal, once", () => {
  const hashed = service("web", { externalIPs: ["192.0.2.1"] });
  const annotations = { "signpost.dev/scheduler": "consistent-hash" };
  const external = { ...hashed, metadata: { ...hashed.metadata, annotations } };
  const internal = { ...service("web"), metadata: external.metadata };
  const messagesOf = (object: ApiObject, tcpBeLiberal = false) => {
    const pipeline = new Pipeline();
    const logger = new MemoryLogger();
    const conntrack = { ...DEFAULTS.conntrack, tcpBeLiberal };
    const advice = new Advice({
      node: () => pipeline.desired.node,
      ownAddresses: () => [],
      cache: { complete: false, node: undefined },
      configuration: { ...DEFAULTS, conntrack },
      traits: traitsOf("nftables"),
      nodeName: NODE_NAME,
      logger,
    });
    const { change } = pipeline.load([object]);
    for (let sync = 0; sync < 2; sync++) atOnce(advice.advising(change));
    return logger.messages;
  };
  const [message = "", ...more] = messagesOf(external);
  assertMatch(message, /hash.*conntrack\.tcpBeLiberal/);
  assertEquals(more, []);
  assertEquals(messagesOf(external, true), []);
  assertEquals(messagesOf(internal), []);
});
