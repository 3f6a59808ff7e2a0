import { assertEquals, assertGreater, assertNotEquals } from "@std/assert";
import { Network } from "./network.ts";
import { addAddress, GATE } from "./topology.ts";
import type { Outcome } from "./traffic.ts";

const TOPOLOGY = {
  node: ["192.168.0.2", "2001:db8::2"],
  hosts: {
    web1: ["10.244.0.11", "fd00:10:244::11"],
    web2: ["10.244.0.12", "fd00:10:244::12"],
    client: ["203.0.113.10", "2001:db8:1::10"],
  },
};

/** Balances 10.96.0.1 and fd00:10:96::1, port 80; rejects port 81, drops port 82; masquerades port 83. */
const RULES = `table inet test {
  chain vip {
    ip daddr 10.96.0.1 meta l4proto { tcp, udp } th dport { 80, 83 } dnat ip to numgen random mod 2 map {
      0 : 10.244.0.11 . 8080, 1 : 10.244.0.12 . 8080 }
    ip6 daddr fd00:10:96::1 meta l4proto { tcp, udp } th dport { 80, 83 } dnat ip6 to numgen random mod 2 map {
      0 : fd00:10:244::11 . 8080, 1 : fd00:10:244::12 . 8080 }
  }
  chain prerouting {
    type nat hook prerouting priority dstnat
    meta l4proto { tcp, udp } th dport 83 ct mark set 1
    meta l4proto { tcp, udp } jump vip
  }
  chain output {
    type nat hook output priority -100
    meta l4proto { tcp, udp } jump vip
  }
  chain filter {
    meta l4proto { tcp, udp } th dport 81 reject
    meta l4proto { tcp, udp } th dport 82 drop
  }
  chain forward {
    type filter hook forward priority filter
    jump filter
  }
  chain filter-output {
    type filter hook output priority filter
    jump filter
  }
  chain postrouting {
    type nat hook postrouting priority srcnat
    ct mark 1 masquerade
  }
}
`;

async function createNetwork(): Promise<Network> {
  const network = await Network.create(TOPOLOGY);
  for (const host of ["web1", "web2"]) {
    for (const protocol of ["tcp", "udp"] as const) network.serve(host, { protocol, port: 8080 });
  }
  await network.applyNft(RULES);
  return network;
}

function hostsOf(outcomes: readonly Outcome[]): string[] {
  const names = outcomes.map((o) => o.type === "answer" ? o.answer.host : o.type);
  return [...new Set(names)].sort();
}

function isMasqueraded(outcome: Outcome): boolean | undefined {
  if (outcome.type !== "answer") return undefined;
  return outcome.answer.peer.address !== outcome.source.address;
}

for (const address of ["10.96.0.1", "fd00:10:96::1"]) {
  for (const protocol of ["tcp", "udp"] as const) {
    Deno.test(`${protocol} to ${address}: the network sees what rules do`, async () => {
      await using network = await createNetwork();
      for (const from of ["client", "node"]) {
        const via = (port: number, times: number) =>
          network.connect({ from, protocol, address, port, times });
        const [balanced, rejected, dropped, untouched] = await Promise.all([
          via(80, 40),
          via(81, 4),
          via(82, 4),
          via(90, 4),
        ]);
        assertEquals(hostsOf(balanced), ["web1", "web2"]);
        assertEquals(new Set(balanced.map(isMasqueraded)), new Set([false]));
        assertEquals(hostsOf(rejected), ["reject"]);
        assertEquals(hostsOf(dropped), ["drop"]);
        assertEquals(hostsOf(untouched), ["world"]);
      }
      const masqueraded = await network.connect({
        from: "client",
        protocol,
        address,
        port: 83,
        times: 4,
      });
      for (const outcome of masqueraded) {
        if (outcome.type !== "answer") throw new Error(outcome.type);
        assertEquals(GATE.includes(outcome.answer.peer.address), true);
        assertEquals(outcome.answer.at.port, 8080);
      }
    });
  }
}

Deno.test("a long connection outlives the replacement of the rules that made it", async () => {
  await using network = await createNetwork();
  const wire = await network.stay({ from: "client", address: "10.96.0.1", port: 80 });
  assertEquals(await wire.exchange("one"), "one");
  await network.applyNft(`delete table inet test\n${RULES.replace("mod 2", "mod 1")}`);
  assertEquals(await wire.exchange("two"), "two");
  wire.close();
});

Deno.test("an IPv6 address answers as soon as it was added, also beside a network that goes", async () => {
  const leaving = await createNetwork();
  await using network = await createNetwork();
  network.serve("node", { protocol: "tcp", port: 22, address: "::" });
  const gone = leaving[Symbol.asyncDispose]();
  for (let i = 1; i <= 20; i++) {
    const address = `2001:db8:2::${i}`;
    await network.ip("node", [addAddress(address, "lo")]);
    const outcomes = await network.connect({ from: "client", address, port: 22 });
    assertEquals(hostsOf(outcomes), ["node"], address);
  }
  await gone;
});

Deno.test("networks side by side do not see each other", async () => {
  const names: string[] = [];
  {
    await using first = await createNetwork();
    await using second = await Network.create(TOPOLOGY);
    assertNotEquals(first.namespaceOf("node"), second.namespaceOf("node"));
    names.push(first.namespaceOf("node"), second.namespaceOf("node"));
    const request = { from: "client", address: "10.244.0.11", port: 8080 };
    assertEquals(hostsOf(await first.connect(request)), ["web1"]);
    assertEquals(hostsOf(await second.connect(request)), ["reject"]);
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
