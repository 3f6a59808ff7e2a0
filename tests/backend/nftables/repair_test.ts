import { assertEquals } from "@std/assert";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { repairScript } from "../../../lib/backend/nftables/repair.ts";
import { Touched } from "../../../lib/backend/nftables/transactions.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { LongTurns } from "../../support/clock_and_log.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { SERVICE } from "./web.ts";

Deno.test("a rule that another program touches while elements are worked out is looked for, too", async () => {
  const pipeline = new Pipeline();
  const endpoints = Array.from({ length: 3_000 }, (_, i) => ({
    addresses: [`10.244.${i >> 8}.${i & 255}`],
  }));
  // Work on the second Service begins with a new turn.
  const second = { clusterIP: "10.96.0.2", ports: [{ port: 80 }] };
  pipeline.load([
    ...SERVICE.map((each) => each.kind === "EndpointSlice" ? { ...each, endpoints } : each),
    { kind: "Service", metadata: { namespace: "shop", name: "z" }, spec: second },
  ]);
  const dataplane = new NftablesDataplane(
    new Nft({ run: () => Promise.reject(new Error("nothing is written")) }),
  );
  const touched = new Touched();
  touched.add({
    elementLines: ["10.96.0.1", "10.96.0.2"].map((address) =>
      `add element inet signpost services4 { ${address} . udp . 80 : drop }`
    ),
    touchesStructure: false,
  });
  const listings: string[] = [];
  const list = (what: string) => () => Promise.resolve(void listings.push(what)).then(() => "");
  class Clock extends LongTurns {
    override sleep(): Promise<void> {
      touched.add({ elementLines: [], touchesStructure: true });
      return super.sleep();
    }
  }
  const nft = { listTable: list("table"), listStructure: list("structure") };
  await repairScript({ nft, dataplane, touched, clock: new Clock() }, pipeline.desired);
  assertEquals(listings, ["structure"]);
});
