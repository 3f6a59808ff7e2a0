/**
 * A virtual IP that is an address of the node leads to Services at their ports. Its other ports are the node's.
 */
import { assertEquals, assertNotEquals } from "@std/assert";
import { FAMILIES, type Family } from "../../lib/model/values/address.ts";
import type { Network } from "../support/network.ts";
import { addAddress, NODE } from "../support/topology.ts";
import { applyOnce, createCluster } from "./case.ts";
import {
  ADDRESSES,
  type Host,
  type Manifest,
  NODE_PORT,
  PORT,
  service,
  slice,
  slicePorts,
  TARGET_PORT,
} from "./cluster.ts";
import { eventually } from "../support/eventually.ts";
import { HandOverStage } from "./hand_over_stage.ts";
import { Stage } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { serviceCIDR } from "../support/cluster.ts";

const test = sideBySide("virtual IPs that are the node's", 4);

/** A port of the node's own on all of its addresses, as sshd has it. */
const OWN_PORT = 22;
const PLACES: readonly Host[] = ["pod", "client", "node"];
const TIMEOUT = 5_000;

/** Tries one connection from each place. */
async function outcomes(
  network: Network,
  address: string,
  port: number,
  places: readonly Host[] = PLACES,
): Promise<string[]> {
  const all = await Promise.all(
    places.map((from) => network.connect({ from, address, port, timeout: TIMEOUT })),
  );
  return all.map(([outcome]) =>
    outcome?.type === "answer" ? outcome.answer.host : `${outcome?.type}`
  );
}

/** A Service with every kind of virtual IP; the node's own address is an external IP, too. */
function objects(family: Family): Manifest[] {
  const a = ADDRESSES[family];
  return [
    service(a, {
      spec: { type: "LoadBalancer", externalIPs: [a.externalIP, a.node, a.loadBalancer2] },
      ingress: [{ ip: a.loadBalancer }],
    }),
    slice(a, ["local1"]),
  ];
}

for (const mode of ["nftables", "iptables"] as const) {
  for (const family of FAMILIES) {
    test(`the node keeps other ports of a virtual IP, ${mode} (IPv${family})`, async () => {
      const a = ADDRESSES[family];
      await using network = await createCluster();
      network.serve(NODE, { protocol: "tcp", port: OWN_PORT, address: "::" });
      await network.ip(NODE, [
        "link add vips type bridge",
        addAddress(a.clusterIP, "vips"),
        addAddress(a.loadBalancer, "lo"),
        addAddress(a.externalIP, "vips"),
      ]);
      await applyOnce(network, { a, objects: objects(family), config: { mode } });
      // An address that comes after the rules were written is the node's at once.
      await network.ip(NODE, [addAddress(a.loadBalancer2, "client")]);
      for (const vip of [a.clusterIP, a.loadBalancer, a.externalIP, a.node, a.loadBalancer2]) {
        assertEquals(await outcomes(network, vip, PORT), ["local1", "local1", "local1"], vip);
        assertEquals(await outcomes(network, vip, OWN_PORT), ["node", "node", "node"], vip);
      }
    });
  }
}

for (const mode of ["nftables", "iptables"] as const) {
  for (const family of FAMILIES) {
    test(`the node's ports answer at an address of a ServiceCIDR, ${mode} (IPv${family})`, async () => {
      const a = ADDRESSES[family];
      await using network = await createCluster();
      network.serve(NODE, { protocol: "tcp", port: OWN_PORT, address: "::" });
      await network.ip(NODE, [
        addAddress(a.loadBalancer, "lo"),
        addAddress(a.loadBalancer2, "lo"),
        addAddress(a.externalIP, "client"),
      ]);
      const bits = family === 4 ? 32 : 128;
      // The Node does not tell of the second one.
      const wide = serviceCIDR({
        name: "wide",
        cidrs: [`${a.node}/${bits}`, `${a.externalIP}/${bits}`],
      });
      const endpoint = { addresses: [a.loadBalancer], conditions: { ready: true } };
      await applyOnce(network, {
        a,
        objects: [
          wide,
          service(a, {
            spec: { type: "LoadBalancer", externalIPs: [a.loadBalancer2] },
            ingress: [{ ip: a.loadBalancer }],
          }),
          { ...slice(a, []), ports: slicePorts(OWN_PORT), endpoints: [endpoint] },
        ],
        config: { mode },
      });
      assertEquals(await outcomes(network, a.node, OWN_PORT), ["node", "node", "node"]);
      assertEquals(await outcomes(network, a.externalIP, OWN_PORT, ["client"]), ["node"]);
      assertEquals(await outcomes(network, a.loadBalancer2, PORT), ["node", "node", "node"]);
      assertEquals(await outcomes(network, a.loadBalancer2, OWN_PORT), ["node", "node", "node"]);
    });
  }
}

for (const mode of ["nftables", "iptables"] as const) {
  test(`a load-balancer IP of the node takes no port of a program, ${mode}`, async () => {
    const a = ADDRESSES[4];
    const port = (name: string, port: number) => ({ name, protocol: "TCP", port });
    const target = { targetPort: TARGET_PORT };
    const ports = [{ ...port("ssh", OWN_PORT), ...target }, { ...port("web", PORT), ...target }];
    const targets = [port("ssh", TARGET_PORT), port("web", TARGET_PORT)];
    await using stage = await Stage.create({
      objects: [
        service(a, { spec: { type: "LoadBalancer", ports }, ingress: [{ ip: a.node }] }),
        slice(a, ["local1"], { ports: targets }),
      ],
      config: { mode },
    });
    const { network } = stage;
    network.serve(NODE, { protocol: "tcp", port: OWN_PORT, address: "::" });
    await using signpost = stage.start();
    await signpost.waitForLog(
      new RegExp(`${a.node}:${OWN_PORT}/tcp belongs to a program of this node`),
    );
    await eventually(
      "the Service's other port",
      async () => (await outcomes(network, a.node, PORT)).every((each) => each === "local1"),
    );
    assertEquals(await outcomes(network, a.node, OWN_PORT), ["node", "node", "node"]);
    assertEquals(await outcomes(network, a.clusterIP, OWN_PORT), ["local1", "local1", "local1"]);
  });
}

// In nftables mode node ports are on the node's own addresses.
for (const family of FAMILIES) {
  test(`a node port drops at a virtual IP on lo, iptables (IPv${family})`, async () => {
    const a = ADDRESSES[family];
    await using network = await createCluster();
    await network.ip(NODE, [addAddress(a.loadBalancer, "lo")]);
    const spec = { type: "LoadBalancer", externalTrafficPolicy: "Local" };
    const balanced = service(a, { spec, ingress: [{ ip: a.loadBalancer }] });
    const objects = [balanced, slice(a, ["remote1"])];
    await applyOnce(network, { a, objects, config: { mode: "iptables" } });
    for (const address of [a.node, a.loadBalancer]) {
      // Pods and the node go to all endpoints.
      const expected = ["remote1", "drop", "remote1"];
      assertEquals(await outcomes(network, address, NODE_PORT), expected, address);
      const next = await outcomes(network, address, NODE_PORT + 1, ["client"]);
      assertEquals(next, ["reject"], address);
    }
  });
}

for (const mode of ["nftables", "iptables"] as const) {
  test(`leftovers of kube-proxy's ipvs mode end without exposing ports, ${mode}`, async () => {
    await using stage = await HandOverStage.create();
    const { network } = stage;
    network.serve(NODE, { protocol: "tcp", port: OWN_PORT, address: "::" });
    await stage.installKubeProxy("ipvs", "-nft");
    const vips = FAMILIES.map((family) => ADDRESSES[family].clusterIP);
    // kube-proxy's filter is not in this state: until signpost is there, the port answers.
    let isThere = false;
    let looks = 0;
    const stop = new AbortController();
    const watching = (async () => {
      while (!stop.signal.aborted) {
        const was = isThere;
        for (const vip of vips) {
          const seen = await outcomes(network, vip, OWN_PORT);
          if (was) assertEquals(seen.includes("node"), false, `${vip}: ${seen}`);
        }
        if (was) looks++;
      }
    })();
    watching.catch(() => {});
    try {
      await using signpost = await stage.startSynced(mode, ["--ipvs-grace-period", "10s"]);
      await signpost.waitForLog(/open connections keep working/);
      isThere = true;
      await signpost.waitForLog(/its leftovers are removed/);
      await eventually("looks after the end", () => looks > 2);
    } finally {
      stop.abort();
    }
    await watching;
    assertNotEquals(looks, 0);
    assertEquals(/kube-ipvs0/.test(await network.run(NODE, ["ip", "link"])), false);
    assertEquals(/ipvs-signpost/.test(await network.run(NODE, ["nft", "list", "tables"])), false);
  });
}
