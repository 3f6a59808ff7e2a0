import { assertEquals, assertGreater, assertNotEquals } from "@std/assert";
import { Libc } from "./libc.ts";
import { Network } from "./network.ts";
import { addAddress } from "./topology.ts";

const TOPOLOGY = {
  node: ["192.168.0.2", "2001:db8::2"],
  hosts: {
    web1: ["10.244.0.11", "fd00:10:244::11"],
    client: ["203.0.113.10", "2001:db8:1::10"],
  },
};

async function createNetwork(): Promise<Network> {
  const network = await Network.create(TOPOLOGY);
  network.serve("web1", { protocol: "tcp", port: 8080 });
  return network;
}

/** Returns the hosts that answer, or what becomes of a connection. */
async function hostsSeen(network: Network, address: string, port: number): Promise<string[]> {
  const outcomes = await network.connect({ from: "client", address, port });
  return outcomes.map((each) => each.type === "answer" ? each.answer.host : each.type);
}

Deno.test("an IPv6 address answers as soon as it was added, also beside a network that goes", async () => {
  const leaving = await createNetwork();
  await using network = await createNetwork();
  network.serve("node", { protocol: "tcp", port: 22, address: "::" });
  const gone = leaving[Symbol.asyncDispose]();
  for (let i = 1; i <= 20; i++) {
    const address = `2001:db8:2::${i}`;
    await network.ip("node", [addAddress(address, "lo")]);
    assertEquals(await hostsSeen(network, address, 22), ["node"], address);
  }
  await gone;
});

for (const family of ["IPv4", "IPv6"] as const) {
  Deno.test(`a client's port is free while a program holds its last socket (${family})`, async () => {
    await using network = await createNetwork();
    network.serve("web1", { protocol: "udp", port: 53, address: "::" });
    const place = family === "IPv4" ? 0 : 1;
    const [address = ""] = TOPOLOGY.hosts.web1.slice(place);
    const source = { address: TOPOLOGY.hosts.client[place] ?? "", port: 20_000 };
    using libc = new Libc();
    const namespace = libc.openNamespace(`/run/netns/${network.namespaceOf("client")}`);
    const held = libc.socket(namespace, { family: family === "IPv4" ? 4 : 6, type: "udp" });
    libc.setOption(held, "reuseAddress");
    libc.bind(held, source);
    libc.connect(held, { address, port: 53 });
    for (let i = 0; i < 3; i++) {
      const client = { from: "client", protocol: "udp", sourcePort: source.port } as const;
      const [outcome] = await network.connect({ ...client, address, port: 53 });
      assertEquals(outcome?.type, "answer");
    }
    libc.close(held);
    libc.close(namespace);
  });
}

Deno.test("networks side by side do not see each other", async () => {
  const names: string[] = [];
  {
    await using first = await createNetwork();
    await using second = await Network.create(TOPOLOGY);
    assertNotEquals(first.namespaceOf("node"), second.namespaceOf("node"));
    names.push(first.namespaceOf("node"), second.namespaceOf("node"));
    assertEquals(await hostsSeen(first, "10.244.0.11", 8080), ["web1"]);
    assertEquals(await hostsSeen(second, "10.244.0.11", 8080), ["reject"]);
  }
  const left = (await Array.fromAsync(Deno.readDir("/run/netns"))).map((entry) => entry.name);
  assertEquals(left.filter((name) => names.includes(name)), []);
  assertGreater(names.length, 0);
});

Deno.test("namespaces of a test process that died are removed by the next", async () => {
  const child = new Deno.Command("true", {}).spawn();
  await child.status;
  const name = `signpost-${child.pid}-abc-node`;
  const { success } = await new Deno.Command("ip", { args: ["netns", "add", name] }).output();
  assertEquals(success, true);
  await using _network = await Network.create({ node: [], hosts: {} });
  const left = (await Array.fromAsync(Deno.readDir("/run/netns"))).map((entry) => entry.name);
  assertEquals(left.includes(name), false);
});
