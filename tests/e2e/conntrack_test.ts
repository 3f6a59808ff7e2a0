import { assertEquals } from "@std/assert";
import { FAMILIES, NFT_FAMILY } from "../../lib/model/values/address.ts";
import {
  ADDRESSES,
  type Addresses,
  ENDPOINT_HOSTS,
  type EndpointHost,
  NODE_PORT,
  PORT,
  service,
  slice,
} from "./cluster.ts";
import { Stage } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("connections that are stale");

/** Clients that send from one port all the time, as DNS resolvers and game servers do. */
const SOURCE_PORTS = Array.from({ length: 12 }, (_, index) => 20_000 + index);

/** Who answers each of the clients. */
async function answers(
  stage: Stage,
  address: string,
  options: { readonly port?: number; readonly from?: string } = {},
): Promise<Map<number, string>> {
  const { port = PORT, from = "pod" } = options;
  const entries = SOURCE_PORTS.map(async (sourcePort) => {
    const [outcome] = await stage.network.connect({
      from,
      protocol: "udp",
      sourcePort,
      address,
      port,
    });
    return [
      sourcePort,
      outcome?.type === "answer" ? outcome.answer.host : `${outcome?.type}`,
    ] as const;
  });
  return new Map(await Promise.all(entries));
}

/** The frontends of a Service, and the ways of their clients. */
const FRONTENDS: readonly (readonly [
  name: string,
  target: (a: Addresses) => { readonly address: string; readonly port?: number },
])[] = [
  ["cluster IP", (a) => ({ address: a.clusterIP })],
  ["external IP", (a) => ({ address: a.externalIP })],
  ["node port", (a) => ({ address: a.node, port: NODE_PORT })],
];

for (const family of FAMILIES) {
  const a = ADDRESSES[family];
  const web = service(a, { spec: { type: "NodePort", externalIPs: [a.externalIP] } });
  const on = (...hosts: EndpointHost[]) => slice(a, hosts);

  for (const [name, target] of FRONTENDS) {
    test(`a UDP client of a ${name} moves when its endpoint goes (IPv${family})`, async () => {
      const { address, port } = target(a);
      const ask = () => answers(stage, address, port === undefined ? {} : { port });
      await using stage = await Stage.create({ objects: [web, on(...ENDPOINT_HOSTS)] });
      await using signpost = await stage.startSynced();
      const before = await ask();
      assertEquals(await ask(), before);
      const gone = before.get(SOURCE_PORTS[0] ?? 0);
      stage.apply(on(...ENDPOINT_HOSTS.filter((host) => host !== gone)));
      const after = await signpost.until("clients that have moved", async () => {
        const now = await ask();
        return ![...now.values()].includes(`${gone}`) && now;
      });
      for (const [client, host] of before) {
        if (host !== gone) assertEquals(after.get(client), host, `client ${client}`);
      }
    });
  }

  test(`UDP clients reach a Service that comes to their address (IPv${family})`, async () => {
    await using stage = await Stage.create();
    // Whoever has the address hears them, but does not answer.
    await stage.network.applyNft(`table inet silence {
  chain prerouting {
    type filter hook prerouting priority raw
    ${NFT_FAMILY[family]} saddr ${a.externalIP} drop
  }
}\n`);
    await using signpost = await stage.startSynced();
    const ask = () => answers(stage, a.externalIP, { from: "client" });
    assertEquals(new Set((await ask()).values()), new Set(["drop"]));
    stage.apply(web, on("local1"));
    await signpost.until("clients that are served", async () => {
      return [...(await ask()).values()].every((host) => host === "local1");
    });
    stage.remove("Service", "shop/web");
    await signpost.until("clients that are served no more", async () => {
      return [...(await ask()).values()].every((host) => host === "drop");
    });
  });

  test(`a restart finds the UDP clients of a removed endpoint (IPv${family})`, async () => {
    await using stage = await Stage.create({ objects: [web, on("local1", "local2")] });
    await using first = await stage.startSynced();
    const before = await answers(stage, a.clusterIP);
    await first.stop();
    stage.apply(on("local2"));
    assertEquals(await answers(stage, a.clusterIP), before);
    await using second = await stage.startSynced();
    await second.until("clients that have moved", async () => {
      const now = await answers(stage, a.clusterIP);
      return [...now.values()].every((host) => host === "local2");
    });
  });
}
