import { assertEquals, assertNotEquals } from "@std/assert";
import type { Variant } from "../../../lib/backend/iptables/kernel/programs.ts";
import { FAMILIES } from "../../../lib/model/values/address.ts";
import { runnerIn } from "../../support/command.ts";
import { Network } from "../../support/network.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import type { Outcome } from "../../support/traffic.ts";
import { programName } from "../../../lib/backend/iptables/script/names.ts";
import { newDataplane, VARIANTS } from "./kernel.ts";
import { service, slice } from "../../support/cluster.ts";

const PODS = { 4: "10.244.0.1", 6: "fd00:10:244::1" };
const VIPS = { 4: "10.96.0.1", 6: "fd00:10:96::1" };
const TOPOLOGY = {
  node: ["192.168.0.2", "2001:db8::2"],
  hosts: {
    web1: [`${PODS[4]}1`, `${PODS[6]}1`],
    web2: [`${PODS[4]}2`, `${PODS[6]}2`],
    web3: [`${PODS[4]}3`, `${PODS[6]}3`],
    client: ["203.0.113.10", "2001:db8:1::10"],
  },
};

interface Setup {
  readonly network: Network;
  /** Makes these endpoints the only ones of the Service, by a partial sync if it is not the first. */
  readonly apply: (hosts: readonly (keyof typeof TOPOLOGY.hosts)[]) => Promise<void>;
}

/** A node with one Service, of both families, on `web1` to `web3`. */
async function setUp(variant: Variant, spec: ApiObject["spec"]): Promise<Setup> {
  const network = await Network.create(TOPOLOGY);
  for (const host of ["web1", "web2", "web3"]) network.serve(host, { protocol: "tcp", port: 8080 });
  const dataplane = newDataplane({ runner: runnerIn(network.namespaceOf("node")), variant });
  const pipeline = new Pipeline({
    mode: "iptables",
    configuration: { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] },
  });
  let isFirst = true;
  const apply: Setup["apply"] = async (hosts) => {
    if (isFirst) await pipeline.apply(dataplane, objects(hosts, spec));
    else await dataplane.apply(pipeline.step(dataplane, objects(hosts, spec)));
    isFirst = false;
  };
  return { network, apply };
}

function objects(
  hosts: readonly (keyof typeof TOPOLOGY.hosts)[],
  spec: ApiObject["spec"],
): ApiObject[] {
  const clusterIPs = Object.values(VIPS);
  const ports = [{ name: "http", port: 80, protocol: "TCP" }];
  return [
    service({ clusterIP: clusterIPs[0], clusterIPs, ports, ...(spec ?? {}) }),
    ...FAMILIES.map((family, i) =>
      slice({
        name: `web-${family}`,
        ports: [{ name: "http", port: 8080, protocol: "TCP" }],
        endpoints: hosts.map((host) => `${TOPOLOGY.hosts[host][i]}@node-1`),
      })
    ),
  ];
}

function hostsOf(outcomes: readonly Outcome[]): string[] {
  const names = outcomes.map((each) => each.type === "answer" ? each.answer.host : each.type);
  return [...new Set(names)].sort();
}

for (const variant of VARIANTS) {
  for (const family of FAMILIES) {
    const address = VIPS[family];
    const name = `iptables${variant}, IPv${family}`;

    Deno.test(`${name}: only a connection that comes back to its own source is masqueraded`, async () => {
      const { network, apply } = await setUp(variant, {});
      await using _network = network;
      await apply(["web1", "web2"]);
      const outcomes = await network.connect({ from: "web1", address, port: 80, times: 40 });
      assertEquals(hostsOf(outcomes), ["web1", "web2"]);
      for (const outcome of outcomes) {
        if (outcome.type !== "answer") throw new Error(outcome.type);
        const isMasqueraded = outcome.answer.peer.address !== outcome.source.address;
        assertEquals(isMasqueraded, outcome.answer.host === "web1");
      }
    });

    Deno.test(`${name}: an endpoint reaches itself beside a firewall that drops forwarding`, async () => {
      const { network, apply } = await setUp(variant, {});
      await using _network = network;
      const filter = programName(family, "", variant);
      await network.run("node", [filter, "-P", "FORWARD", "DROP"]);
      const connect = async (from: string) =>
        hostsOf(await network.connect({ from, address, port: 80, times: 10, timeout: 1_000 }));
      await apply(["web2"]);
      assertEquals(await connect("web1"), ["drop"]);
      await apply(["web1"]);
      assertEquals(await connect("web1"), ["web1"]);
      assertEquals(await connect("client"), ["web1"]);
      await apply(["web2"]);
      assertEquals(await connect("web1"), ["drop"]);
    });

    Deno.test(`${name}: a client stays on its endpoint until that goes`, async () => {
      const { network, apply } = await setUp(variant, { sessionAffinity: "ClientIP" });
      await using _network = network;
      const connect = async () =>
        hostsOf(await network.connect({ from: "client", address, port: 80, times: 20 }));
      await apply(["web1", "web2"]);
      const [first, ...others] = await network.connect({
        from: "client",
        address,
        port: 80,
        times: 1,
      });
      if (first?.type !== "answer" || others.length > 0) throw new Error("no answer");
      const chosen = first.answer.host;
      assertEquals(await connect(), [chosen]);
      await apply(["web1", "web2", "web3"]);
      assertEquals(await connect(), [chosen]);
      const other = chosen === "web1" ? "web2" : "web1";
      await apply(chosen === "web1" ? ["web1"] : ["web2"]);
      assertEquals(await connect(), [chosen]);
      await apply([other, "web3"]);
      const moved = await connect();
      assertEquals(moved.length, 1);
      assertNotEquals(moved, [chosen]);
      await apply(["web1", "web2", "web3"]);
      assertEquals(await connect(), moved);
    });
  }
}
