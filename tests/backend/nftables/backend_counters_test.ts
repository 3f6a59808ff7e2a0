import { assertEquals, assertRejects } from "@std/assert";
import {
  countingMaps,
  countsIn,
  elementCounters,
  localhostRejects,
  rejectedPackets,
} from "../../../lib/backend/nftables/backend.ts";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { ApplyError } from "../../../lib/model/kernel/dataplane.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { ManualClock } from "../../support/clock_and_log.ts";
import type { Sample } from "../../../lib/backend/metrics.ts";

const LISTING = `table inet signpost {
	map services4 {
		typeof ip daddr . meta l4proto . tcp dport : verdict
		counter
		elements = { 10.96.0.10 . tcp . 80 counter packets 3 bytes 180 comment "shop/web:http" : goto cluster4-tcp-3,
			     10.96.0.53 . udp . 53 counter packets 1 bytes 30 comment "kube-system/dns" : goto cluster4-udp-2,
			     10.96.0.54 . 132 . 53 counter packets 4 bytes 30 comment "kube-system/dns:s" : goto cluster4-sctp-2 }
	}
}
`;

Deno.test("the counts of a map are read with their Services", () => {
  assertEquals([...countsIn("services4", LISTING)], [
    { frontend: "IPv4 10.96.0.10 . tcp . 80", service: "shop/web", connections: 3 },
    { frontend: "IPv4 10.96.0.53 . udp . 53", service: "kube-system/dns", connections: 1 },
    { frontend: "IPv4 10.96.0.54 . sctp . 53", service: "kube-system/dns", connections: 4 },
  ]);
  const nodePorts =
    `elements = { 6 . 30080 counter packets 9 bytes 1 comment "shop/web:http" : goto x }`;
  assertEquals([...countsIn("nodeports6", nodePorts)], [
    { frontend: "IPv6 tcp . 30080", service: "shop/web", connections: 9 },
  ]);
  const virtual =
    `elements = { fd00:10:96::a . tcp . 80 counter packets 2 bytes 1 comment "a/b" : drop }`;
  assertEquals([...countsIn("services6", virtual)], [
    { frontend: "IPv6 fd00:10:96::a . tcp . 80", service: "a/b", connections: 2 },
  ]);
});

Deno.test("elements that refuse say why", () => {
  const listing = `elements = {
    10.96.0.10 . tcp . 80 counter packets 3 bytes 180 comment "shop/web:http" : drop,
    10.96.0.11 . tcp . 80 counter packets 40 bytes 80 comment "shop/closed" : goto reject-traffic }`;
  const reasons = (map: string) => [...countsIn(map, listing)].map(({ reason }) => reason);
  assertEquals(reasons("no-endpoints4"), ["no-local-endpoints", "no-endpoints"]);
  assertEquals(reasons("firewall-drops4"), ["source-range", "source-range"]);
  assertEquals(reasons("services4"), [undefined, undefined]);
});

Deno.test("elements without a counter or a Service count nothing", () => {
  const elements = `elements = { 10.96.0.10 . tcp . 80 comment "shop/web:http" : goto a,
    10.96.0.11 . tcp . 80 counter packets 3 bytes 180 : goto a,
    10.96.0.12 . gre . 80 counter packets 3 bytes 180 comment "a/b" : goto a }`;
  assertEquals([...countsIn("services4", elements)], []);
  assertEquals([...countsIn("short-circuits4", LISTING)], []);
});

Deno.test("only maps of frontends that have any are read", () => {
  const elements = ["services4", "endpoints-tcp4", "services6", "nodeports6", "no-endpoints6"];
  assertEquals(countingMaps(new Map(elements.map((name) => [name, 1]))), [
    "services4",
    "services6",
    "nodeports6",
    "no-endpoints6",
  ]);
});

Deno.test("frontends are ours once the kernel has taken a full script", async () => {
  const result = { code: 1, stdout: "", stderr: "Error: No buffer space available" };
  const nft = new Nft({ run: () => Promise.resolve(result) });
  const dataplane = new NftablesDataplane(nft);
  const counters = elementCounters({ nft, dataplane });
  const { desired } = new Pipeline();
  await assertRejects(() => dataplane.apply(dataplane.full(desired)), ApplyError);
  assertEquals(counters.areOurs, false);
  result.code = 0;
  await dataplane.apply(dataplane.full(desired));
  assertEquals(counters.areOurs, true);
});

function listing(packets: number): string {
  return `table inet signpost {
	chain reject-localhost4-udp {
		counter packets ${packets} bytes 90 reject
	}

	chain other {
		counter packets 7 bytes 90 reject
	}
}
`;
}

Deno.test("rejected packets are read from the rules of each family and protocol", () => {
  assertEquals(rejectedPackets(listing(3)), new Map([["reject-localhost4-udp", 3]]));
  assertEquals(rejectedPackets(""), new Map());
});

Deno.test("rejected packets go on counting when the table is replaced", async () => {
  const clock = new ManualClock();
  let packets = 5;
  const metric = localhostRejects({
    nft: { listStructure: () => Promise.resolve(listing(packets)) },
    elements: () => new Map([["localhost-nodeports4", 1]]),
    clock,
  });
  const read = async () => {
    clock.pass(5_000);
    const all = [...await metric.read() as Iterable<Sample>];
    return all.find(({ labels }) => labels.ip_family === "IPv4" && labels.protocol === "UDP")
      ?.value;
  };
  assertEquals(await read(), 5);
  packets = 8;
  assertEquals(await read(), 8);
  packets = 2;
  assertEquals(await read(), 10);
});

Deno.test("the kernel is not asked for rejected packets if no node port is rejected", async () => {
  const metric = localhostRejects({
    nft: { listStructure: () => Promise.reject(new Error("asked")) },
    elements: () => new Map([["services4", 1]]),
    clock: new ManualClock(),
  });
  assertEquals(
    [...await metric.read() as Iterable<Sample>].every(({ value }) => value === 0),
    true,
  );
});
