import { assertEquals } from "@std/assert";
import { ManualClock } from "../../support/clock_and_log.ts";
import type { Sample } from "../../../lib/backend/metrics.ts";
import { localhostRejects, rejectedPackets } from "../../../lib/backend/nftables/backend.ts";

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
