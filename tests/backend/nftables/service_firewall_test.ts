import { assert, assertEquals } from "@std/assert";
import { desiredNode } from "../../../lib/policy/node.ts";
import type { Configuration } from "../../../lib/config/configuration.ts";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { FullScript } from "../../../lib/backend/nftables/write.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { PROBE_SERVICES } from "../../../lib/backend/nftables/probe.ts";
import { run } from "../../support/command.ts";
import { configuration, DEFAULTS } from "../../support/configuration.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import { SILENT_RUNNER, traitsOf } from "../../support/modes.ts";
import { Kernel } from "./kernel.ts";
import { type Fields, service as buildService, slice } from "../../support/cluster.ts";

const DETECT_LOCAL = {
  bridgeInterface: "cni0",
  interfaceNamePrefix: "cali",
  clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/64"],
};

/** Settings that between them give every rule of the node. */
const SETTINGS: Readonly<Record<string, Partial<Configuration>>> = {
  defaults: {},
  "cluster CIDRs": { clusterCIDRs: DETECT_LOCAL.clusterCIDRs },
  bridge: { detectLocalMode: "BridgeInterface", detectLocal: DETECT_LOCAL },
  "interface prefix": { detectLocalMode: "InterfaceNamePrefix", detectLocal: DETECT_LOCAL },
  "node port addresses": { nodePortAddresses: ["192.0.2.0/24", "198.51.100.7/32", "fd00::/64"] },
  masqueradeAll: { nftables: { ...DEFAULTS.nftables, masqueradeAll: true } },
};

/** The table with every kind of rule. */
function fullTable(settings: Partial<Configuration>): string {
  const node = desiredNode({
    configuration: configuration(settings),
    traits: traitsOf("nftables"),
    node: undefined,
    serviceCIDRs: [{ name: "kubernetes", cidrs: ["10.96.0.0/16", "fd00:10:96::/112"] }],
  });
  return new FullScript({ node, services: new Map([["all", PROBE_SERVICES]]) }).text;
}

/** As nft prints it: `hton(register, size of a number, bytes in all)`. */
const BYTEORDER = /byteorder reg \d+ = \w+\(reg \d+, (\d+), (\d+)\)/g;

for (const [name, settings] of Object.entries(SETTINGS)) {
  Deno.test(`nft writes no byte-order conversion of a single byte, ${name}`, async () => {
    await using kernel = await Kernel.create();
    const text = fullTable(settings);
    // Twice: a table that is there makes nft read it back.
    for (const _ of [1, 2]) {
      const said = await run([...kernel.prefix, "nft", "--debug=netlink", "-f", "-"], {
        stdin: text,
      });
      assert(said.includes("[ lookup "), said);
      const wrong = [...said.matchAll(BYTEORDER)]
        .filter(([, size, length]) => Number(length) % Number(size) !== 0);
      assertEquals(wrong.map(([line]) => line), []);
    }
  });
}

Deno.test("no set of ranges has a protocol in its key", () => {
  const declarations = Object.values(SETTINGS).flatMap((settings) => [
    ...fullTable(settings).matchAll(/typeof [^\n]*flags [a-z,]*interval/g),
  ]);
  assert(declarations.length > 0);
  for (const [declaration] of declarations) {
    assertEquals(declaration.includes("l4proto"), false, declaration);
  }
});

function service(name: string, spec: Fields): ApiObject {
  const ports = [{ name: "http", port: 80 }];
  return buildService({ name, type: "LoadBalancer", ports, ...spec });
}

const OPEN = service("open", { clusterIP: "10.96.0.1", ingress: ["192.0.2.1"] });
const RANGED = service("ranged", {
  clusterIP: "10.96.0.2",
  ingress: ["192.0.2.2"],
  loadBalancerSourceRanges: ["198.51.100.0/24"],
});
const RANGED_UDP = service("ranged-udp", {
  clusterIP: "10.96.0.3",
  ingress: ["192.0.2.3"],
  ports: [{ name: "dns", port: 17, protocol: "UDP" }],
  loadBalancerSourceRanges: ["198.51.100.0/24", "203.0.113.0/25"],
});

/** Matches objects that exist for source ranges alone. */
const FIREWALL = /firewall|source-ranges|filter-prerouting|filter-output-before-dnat/;

Deno.test("rules for source ranges exist while a Service has ranges", async () => {
  const dataplane = new NftablesDataplane(new Nft(SILENT_RUNNER));
  const pipeline = new Pipeline();
  pipeline.load([OPEN]);
  const full = dataplane.full(pipeline.desired);
  assertEquals(FIREWALL.test(full.text), false);
  await dataplane.apply(full);
  const step = async (objects: readonly ApiObject[]) => {
    const script = pipeline.step(dataplane, objects);
    await dataplane.apply(script);
    return script.text.split("\n").filter((line) => /^(?:add|delete) (?!element)/.test(line));
  };
  const parts = (lines: readonly string[], verb: string) =>
    lines.filter((line) =>
      FIREWALL.test(line) && new RegExp(`^${verb} (?:chain|set|map)`).test(line)
    )
      .map((line) =>
        line.split(" ").slice(1, 5).filter((word) => !/^(?:inet|signpost)$/.test(word))
      )
      .map((words) => words.join(" ")).sort();
  const shared = [
    "chain filter-output-before-dnat",
    "chain filter-prerouting",
    "chain firewall",
    "map firewall-drops4",
    "map firewalls4",
    "map firewalls6",
  ];
  const tcp = ["chain source-ranges4-tcp", "set source-ranges-tcp4"];
  const udp = ["chain source-ranges4-udp", "set source-ranges-udp4"];
  assertEquals(parts(await step([OPEN, RANGED]), "add"), [...shared, ...tcp].sort());
  assertEquals(parts(await step([OPEN, RANGED, RANGED_UDP]), "add"), udp);
  assertEquals(parts(await step([OPEN, RANGED_UDP]), "delete"), tcp);
  // Maps are deleted as such, and all that leads to a chain before it.
  const last = await step([OPEN]);
  assertEquals(parts(last, "delete"), [...shared, ...udp].sort());
});

Deno.test("a frontend with source ranges leads to endpoints from inside of them alone", () => {
  const pipeline = new Pipeline();
  const slices = ["open", "ranged"].map((name) =>
    slice({ service: name, ports: [{ name: "http", port: 8080 }], endpoints: ["10.1.0.1"] })
  );
  pipeline.load([OPEN, RANGED, ...slices]);
  const { text } = new NftablesDataplane(new Nft(SILENT_RUNNER)).full(pipeline.desired);
  const verdictOf = (address: string) =>
    new RegExp(`${address} . tcp . 80 comment .* : goto ([^\\s,]+)`).exec(text)?.[1];
  assertEquals(verdictOf("192.0.2.1"), "external4-tcp-1");
  const guard = "source-ranges4-tcp-external4-tcp-1";
  assertEquals(verdictOf("192.0.2.2"), guard);
  const rules = ["ip daddr . th dport . ip saddr @source-ranges-tcp4 goto external4-tcp-1", "drop"];
  assert(text.includes(`  chain ${guard} {\n    ${rules.join("\n    ")}\n  }\n`), text);
});
