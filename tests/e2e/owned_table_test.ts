/** A program that holds a table of signpost's name for itself (`flags owner`, nft(8)). */
import { assertEquals } from "@std/assert";
import type { Network } from "../support/network.ts";
import { eventually } from "../support/eventually.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, service, slice } from "./cluster.ts";
import { Stage, syncs } from "./stage.ts";

/** Holds a table until it is disposed. */
async function own(network: Network, table: string): Promise<AsyncDisposable> {
  const child = new Deno.Command("ip", {
    args: ["netns", "exec", network.namespaceOf(NODE), "nft", "-i"],
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(`add table ${table} { flags owner; }\n`));
  await eventually("the table", async () => {
    return (await network.run(NODE, ["nft", "list", "tables"])).includes(table);
  });
  return {
    [Symbol.asyncDispose]: async () => {
      await writer.close();
      await child.status;
    },
  };
}

const a = ADDRESSES[4];
const OBJECTS = [service(a), slice(a, ["local1"])];

Deno.test("a table that another program owns is named and waited for, in nftables mode", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  await using signpost = await (async () => {
    await using _ = await own(stage.network, "inet signpost");
    const signpost = stage.start();
    await signpost.waitForLog(
      /full sync failed: .*program nft owns the table inet signpost .*: end/,
    );
    return signpost;
  })();
  await signpost.until("its first sync", () => syncs(signpost, "full") === 1);
  assertEquals(signpost.log.includes("mode=nftables"), true);
  await stage.flowsBecome(signpost, [{ from: "pod", to: a.clusterIP, reaches: ["local1"] }]);
});

Deno.test("a table that another program owns is named, however many Services the node has", async () => {
  const many = Array.from({ length: 400 }, (_, i) => {
    const name = `web-${i}`;
    const clusterIP = `10.96.${100 + (i >> 7)}.${1 + (i & 127)}`;
    return [
      service(a, { name, spec: { clusterIP, clusterIPs: [clusterIP] } }),
      slice(a, ["local1"], { service: name, name }),
    ];
  });
  await using stage = await Stage.create({ objects: many.flat() });
  await using _ = await own(stage.network, "inet signpost");
  await using signpost = stage.start();
  await signpost.waitForLog(/full sync failed: .*program nft owns the table inet signpost .*: end/);
});

Deno.test("a table of the probe that another program owns ends the start", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  await using _ = await own(stage.network, "inet signpost-probe");
  await using signpost = stage.start();
  await signpost.waitForLog(/ERROR .*program nft owns the table inet signpost-probe .*: end/);
  assertEquals(signpost.log.includes("mode=iptables"), false);
});
