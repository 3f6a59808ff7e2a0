import { assertEquals, assertNotEquals } from "@std/assert";
import { FAMILIES } from "../../lib/model/values/address.ts";
import { eventually } from "../support/eventually.ts";
import type { Network } from "../support/network.ts";
import {
  ADDRESSES,
  type Addresses,
  type EndpointHost,
  type Host,
  NODE_PORT,
  PORT,
  service,
  slice,
} from "./cluster.ts";
import { applyOnce, createCluster, FileStage } from "./case.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("session affinity");

const ENDPOINTS = ["local1", "local2", "remote1", "remote2"] as const;
/** 12 connections over 4 endpoints stay on one by chance once in 4 million. */
const TIMES = 12;

function objects(a: Addresses, endpoints: readonly EndpointHost[], timeoutSeconds = 3600) {
  return [
    service(a, {
      spec: {
        type: "LoadBalancer",
        sessionAffinity: "ClientIP",
        sessionAffinityConfig: { clientIP: { timeoutSeconds } },
      },
      ingress: [{ ip: a.loadBalancer }],
    }),
    slice(a, endpoints),
  ];
}

/** The hosts, each once, that answer so many connections, one after the other. */
async function hostsSeen(network: Network, request: {
  readonly from: Host;
  readonly protocol: "tcp" | "udp";
  readonly address: string;
  readonly port?: number;
  readonly times?: number;
}): Promise<string[]> {
  const seen = new Set<string>();
  for (let i = 0; i < (request.times ?? TIMES); i++) {
    const options = { port: PORT, timeout: 10_000, ...request, times: 1 };
    const [outcome] = await network.connect(options);
    seen.add(outcome?.type === "answer" ? outcome.answer.host : `${outcome?.type}`);
  }
  return [...seen];
}

for (const family of FAMILIES) {
  const a = ADDRESSES[family];
  for (const protocol of ["tcp", "udp"] as const) {
    test(`a client stays on its endpoint at all addresses (IPv${family}, ${protocol})`, async () => {
      await using network = await createCluster();
      await applyOnce(network, { a, objects: objects(a, ENDPOINTS) });
      for (const from of ["pod", "client", "client2"] as const) {
        const request = { from, protocol, address: a.clusterIP };
        const own = await hostsSeen(network, { ...request, times: 1 });
        for (
          const [address, port] of [
            [a.clusterIP, PORT],
            [a.loadBalancer, PORT],
            [a.node, NODE_PORT],
          ] as const
        ) {
          assertEquals(await hostsSeen(network, { from, protocol, address, port }), own);
        }
      }
    });
  }

  test(`a client stays until its own endpoint goes (IPv${family})`, async () => {
    await using stage = await FileStage.create({
      a,
      objects: objects(a, ["local1", "remote1"]),
      config: { nftables: { minSyncPeriod: "50ms" } },
    });
    const { network } = stage;
    await using signpost = stage.start();
    const connect = (protocol: "tcp" | "udp", times = TIMES) =>
      hostsSeen(network, { from: "pod", protocol, address: a.clusterIP, times });
    const isSynced = (clusterIP2: string) => async () => {
      const [outcome] = await network.connect({ from: "pod", address: clusterIP2, port: PORT });
      return outcome?.type === "answer" && outcome.answer.host === "local1";
    };
    // A second Service, new with each change, tells that the change has arrived.
    const change = async (endpoints: readonly EndpointHost[], marker: string) => {
      await stage.write(a, [
        ...objects(a, endpoints),
        service(a, { name: "marker", spec: { clusterIP: marker } }),
        slice(a, ["local1"], { service: "marker" }),
      ]);
      await signpost.until(`the change to ${endpoints} in the kernel`, isSynced(marker));
    };
    for (const protocol of ["tcp", "udp"] as const) {
      await change(["local1", "remote1"], a.clusterIP2);
      const [own] = await connect(protocol);
      const mine = own === "local1" ? "local1" : "remote1";
      assertEquals(own, mine);
      await change([...ENDPOINTS], a.unallocated);
      assertEquals(await connect(protocol), [mine]);
      await change([mine, "remote2"], a.clusterIP2);
      assertEquals(await connect(protocol), [mine]);
      await change(["local2", "remote2"], a.unallocated);
      const moved = await connect(protocol);
      assertEquals(moved.length, 1);
      assertNotEquals(moved, [mine]);
    }
  });
}

test("a client may move when it was away for longer than the timeout", async () => {
  const a = ADDRESSES[4];
  await using network = await createCluster();
  await applyOnce(network, { a, objects: objects(a, ENDPOINTS, 1) });
  const request = { from: "pod", protocol: "tcp", address: a.clusterIP, times: 1 } as const;
  const [first] = await hostsSeen(network, request);
  await eventually("another endpoint after the timeout", async () => {
    const [next] = await hostsSeen(network, request);
    return next !== first;
  }, { interval: 1500, deadline: 60_000 });
});
