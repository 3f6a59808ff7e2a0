/**
 * Who gets the connections, measured with connections: in turn, or by where the client is, on one node
 * and on two, before and after endpoints go and come.
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { FAMILIES } from "../../lib/model/values/address.ts";
import type { Network } from "../support/network.ts";
import { addAddress } from "../support/topology.ts";
import { applyOnce, createCluster, FileStage } from "./case.ts";
import {
  ADDRESSES,
  type Addresses,
  ENDPOINT_HOSTS,
  type EndpointHost,
  type Manifest,
  NODE_PORT,
  PORT,
  service,
  type ServiceOptions,
  slice,
} from "./cluster.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("schedulers");

/** A Service with annotations for schedulers. */
function scheduled(
  a: Addresses,
  annotations: Readonly<Record<string, string>>,
  options: ServiceOptions = {},
): Manifest {
  const plain = service(a, options);
  return { ...plain, metadata: { ...plain.metadata as Manifest, annotations } };
}

const TURNS = { "signpost.dev/scheduler": "round-robin" };
const HASHED = { "signpost.dev/scheduler": "consistent-hash" };
const HASHED_WITH_PORT = { ...HASHED, "signpost.dev/hash": "source-and-port" };

/** The hosts that answer so many connections, one after the other. */
async function inOrder(
  network: Network,
  address: string,
  { times, port = PORT }: { readonly times: number; readonly port?: number },
): Promise<string[]> {
  const hosts: string[] = [];
  for (let i = 0; i < times; i++) hosts.push(...await answers(network, { address, port }));
  return hosts;
}

/** Who answers one connection from a client outside. */
async function answers(network: Network, request: {
  readonly address: string;
  readonly port?: number;
  readonly protocol?: "tcp" | "udp";
  readonly source?: string;
  readonly sourcePort?: number;
}): Promise<string[]> {
  const outcomes = await network.connect({
    port: PORT,
    timeout: 10_000,
    ...request,
    from: "client",
  });
  return outcomes.map((outcome) => outcome.type === "answer" ? outcome.answer.host : outcome.type);
}

/** How many of the answers are each host's. */
function counts(hosts: readonly string[]): Record<string, number> {
  const groups = [...Map.groupBy(hosts, (host) => host)].sort(([one], [two]) => one < two ? -1 : 1);
  return Object.fromEntries(groups.map(([host, all]) => [host, all.length]));
}

function allAlike(each: number, hosts: readonly string[] = ENDPOINT_HOSTS): Record<string, number> {
  return Object.fromEntries([...hosts].sort().map((host) => [host, each]));
}

for (const family of FAMILIES) {
  const a = ADDRESSES[family];
  for (const mode of ["nftables", "iptables"] as const) {
    test(`round-robin: each endpoint has its turn, ${mode} (IPv${family})`, async () => {
      await using network = await createCluster();
      await applyOnce(network, {
        a,
        objects: [
          scheduled(a, TURNS, {
            spec: { type: "LoadBalancer" },
            ingress: [{ ip: a.loadBalancer }],
          }),
          slice(a, ENDPOINT_HOSTS),
          scheduled(a, TURNS, { name: "other", spec: { clusterIP: a.clusterIP2 } }),
          slice(a, ENDPOINT_HOSTS, { service: "other" }),
        ],
        config: { mode, nodePortAddresses: [a.everyAddress] },
      });
      const mine: string[] = [];
      for (let i = 0; i < 12; i++) {
        mine.push(...await answers(network, { address: a.clusterIP }));
        await answers(network, { address: a.clusterIP2 });
      }
      assertEquals(counts(mine), allAlike(3));
      assertEquals(mine.slice(0, 4), mine.slice(4, 8));
      assertEquals(counts(await inOrder(network, a.loadBalancer, { times: 8 })), allAlike(2));
      const port = NODE_PORT;
      assertEquals(counts(await inOrder(network, a.node, { times: 8, port })), allAlike(2));
    });

    test(`round-robin: remaining endpoints share evenly, ${mode} (IPv${family})`, async () => {
      await using network = await createCluster();
      const seen: Record<string, number>[] = [];
      for (const hosts of [ENDPOINT_HOSTS, ["local1", "remote2"], ENDPOINT_HOSTS] as const) {
        const objects = [scheduled(a, TURNS), slice(a, hosts)];
        await applyOnce(network, { a, objects, config: { mode } });
        seen.push(counts(await inOrder(network, a.clusterIP, { times: 12 })));
      }
      assertEquals(seen, [allAlike(3), allAlike(6, ["local1", "remote2"]), allAlike(3)]);
    });
  }

  test(`consistent-hash in iptables mode is random (IPv${family})`, async () => {
    await using network = await createCluster();
    const objects = [scheduled(a, HASHED), slice(a, ENDPOINT_HOSTS)];
    const stderr = await applyOnce(network, { a, objects, config: { mode: "iptables" } });
    assertMatch(stderr, /shop\/web .*picked at random, since they cannot be picked by a hash/);
    const seen = counts(await inOrder(network, a.clusterIP, { times: 48 }));
    assertEquals(Object.keys(seen), [...ENDPOINT_HOSTS].sort());
  });

  test(`a counter that two Services shared would starve endpoints (IPv${family})`, async () => {
    await using network = await createCluster();
    const objects = [
      scheduled(a, TURNS),
      slice(a, ENDPOINT_HOSTS),
      scheduled(a, TURNS, { name: "other", spec: { clusterIP: a.clusterIP2 } }),
      slice(a, ENDPOINT_HOSTS, { service: "other" }),
    ];
    await applyOnce(network, { a, objects });
    const map = `inet signpost services${family}`;
    const listing = await network.run("node", ["nft", "list", "map", ...map.split(" ")]);
    const [, chain] = /goto (\S+web\/tcp\/tcp)/.exec(listing) ?? [];
    const key = `${a.clusterIP2} . tcp . ${PORT}`;
    const [, own] = /goto (\S+other\/tcp\/tcp)/.exec(listing) ?? [];
    await network.applyNft(
      `delete element ${map} { ${key} : goto ${own} }\nadd element ${map} { ${key} : goto ${chain} }\n`,
    );
    const mine: string[] = [];
    for (let i = 0; i < 12; i++) {
      mine.push(...await answers(network, { address: a.clusterIP }));
      await answers(network, { address: a.clusterIP2 });
    }
    assertEquals(Object.keys(counts(mine)).length, 2, "two of four endpoints");
  });

  test(`consistent-hash: two nodes choose the same endpoint (IPv${family})`, async () => {
    await using first = await createCluster();
    await using second = await createCluster();
    const nodes = [first, second] as const;
    const sources = await addClients(nodes, a);
    const apply = async (endpoints: readonly EndpointHost[]) => {
      for (const [i, network] of nodes.entries()) {
        const objects = [scheduled(a, HASHED), slice(a, endpoints)];
        await applyOnce(network, { a, objects, config: { hostnameOverride: `node${i + 1}` } });
      }
    };
    const ask = async (protocol: "tcp" | "udp" = "tcp") => {
      const [one, two] = await Promise.all(
        nodes.map((network) =>
          Promise.all(
            sources.map((source) => answers(network, { address: a.clusterIP, source, protocol })),
          )
        ),
      );
      assertEquals(one, two);
      return (one ?? []).flat();
    };
    await apply(ENDPOINT_HOSTS);
    const before = await ask();
    assertEquals(Object.keys(counts(before)), [...ENDPOINT_HOSTS].sort());
    for (const share of Object.values(counts(before))) {
      assert(share >= sources.length / 10, `${share} of ${sources.length}`);
    }
    assertEquals(await ask(), before, "each client stays");
    await ask("udp");

    await apply(["local1", "local2", "remote1"]);
    const after = await ask();
    const others = before.flatMap((host, i) => host === "remote2" ? [] : [host === after[i]]);
    const moved = others.filter((same) => !same).length / others.length;
    assert(moved <= 0.1, `${moved} of the clients of other endpoints moved`);
    assertEquals(after.includes("remote2"), false);

    await apply(ENDPOINT_HOSTS);
    assertEquals(await ask(), before, "the endpoint comes back, and its clients with it");
  });

  test(`consistent-hash of source and port spreads one client (IPv${family})`, async () => {
    await using first = await createCluster();
    await using second = await createCluster();
    for (const [i, network] of [first, second].entries()) {
      await applyOnce(network, {
        a,
        objects: [
          scheduled(a, HASHED_WITH_PORT, {
            spec: { type: "LoadBalancer", externalTrafficPolicy: "Cluster" },
            ingress: [{ ip: a.loadBalancer }],
          }),
          slice(a, ENDPOINT_HOSTS),
        ],
        config: { hostnameOverride: `node${i + 1}` },
      });
    }
    for (const protocol of ["tcp", "udp"] as const) {
      const seen: string[] = [];
      for (let i = 0; i < 64; i++) {
        const flow = { address: a.loadBalancer, protocol, sourcePort: 20_000 + 37 * i };
        const host = await answers(first, flow);
        assertEquals(await answers(second, flow), host);
        seen.push(...host);
      }
      assertEquals(Object.keys(counts(seen)), [...ENDPOINT_HOSTS].sort());
      for (const share of Object.values(counts(seen))) assert(share >= 5, `${share} of 64`);
    }
  });

  test(`policy Local schedules among the node's endpoints (IPv${family})`, async () => {
    for (const annotations of [TURNS, HASHED_WITH_PORT]) {
      await using network = await createCluster();
      await applyOnce(network, {
        a,
        objects: [
          scheduled(a, annotations, {
            spec: { type: "LoadBalancer", externalTrafficPolicy: "Local" },
            ingress: [{ ip: a.loadBalancer }],
          }),
          slice(a, ENDPOINT_HOSTS),
        ],
      });
      const seen = counts(await inOrder(network, a.loadBalancer, { times: 24 }));
      assertEquals(Object.keys(seen), ["local1", "local2"]);
      if (annotations === TURNS) assertEquals(seen, allAlike(12, ["local1", "local2"]));
    }
  });
}

for (const [scheduler, line] of [["", undefined], ["wlc", /wlc is not kept/]] as const) {
  test(`nftables serves mode ipvs with scheduler "${scheduler}"`, async () => {
    const a = ADDRESSES[4];
    await using network = await createCluster();
    const stderr = await applyOnce(network, {
      a,
      objects: [service(a, { spec: { type: "NodePort" } }), slice(a, ENDPOINT_HOSTS)],
      config: { mode: "ipvs", ipvs: { scheduler, strictARP: true } },
    });
    assertMatch(stderr, /mode: ipvs is served by nftables rules/);
    assertMatch(stderr, /without effect in signpost: \S+: ipvs\.strictARP/);
    if (line) assertMatch(stderr, line);
    const seen = counts(await inOrder(network, a.nodeSecond, { times: 16, port: NODE_PORT }));
    if (!line) assertEquals(seen, allAlike(4));
    assertEquals(seen["drop"] ?? seen["reject"], undefined);
  });
}

/** Addresses of the client, so many that chance has no say. */
async function addClients(nodes: readonly Network[], a: Addresses): Promise<string[]> {
  const sources = Array.from(
    { length: 80 },
    (_, i) => a.family === 4 ? `198.19.7.${i + 1}` : `fd19:7::${i + 1}`,
  );
  const flag = a.family === 4 ? "" : "-6 ";
  for (const network of nodes) {
    await network.ip("client", sources.map((source) => addAddress(source, "eth0")));
    await network.ip("node", sources.map((source) => `${flag}route add ${source} dev client`));
  }
  return sources;
}

test("connections keep their endpoints while the hash's table changes", async () => {
  const a = ADDRESSES[4];
  const objects = (endpoints: readonly EndpointHost[]) => [
    scheduled(a, HASHED_WITH_PORT),
    slice(a, endpoints),
  ];
  await using stage = await FileStage.create({
    a,
    objects: objects(ENDPOINT_HOSTS),
    config: { nftables: { minSyncPeriod: "50ms" } },
  });
  const { network } = stage;
  await using signpost = stage.start();
  const slots = async () => {
    const map = ["inet", "signpost", "endpoints-tcp4"];
    const text = await network.run("node", ["nft", "list", "map", ...map]).catch(() => "");
    return (address: string) => text.split(`: ${address} .`).length - 1;
  };
  await signpost.until("the table", async () => (await slots())(a.remote2) > 60);
  const request = { from: "client", address: a.clusterIP, port: PORT, timeout: 10_000 };
  const long = await Promise.all(Array.from({ length: 16 }, () => network.stay(request)));
  const say = () => Promise.all(long.map((each, i) => each.exchange(`hello ${i}`)));
  const first = await say();
  await stage.write(a, objects(["local1", "local2", "remote1"]));
  await signpost.until("the endpoint is gone", async () => (await slots())(a.remote2) === 0);
  assertEquals(await say(), first);
  await stage.write(a, objects(ENDPOINT_HOSTS));
  await signpost.until("the endpoint is back", async () => (await slots())(a.remote2) > 60);
  assertEquals(await say(), first);
  for (const each of long) each.close();
});
