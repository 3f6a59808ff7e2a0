import { assertEquals } from "@std/assert";
import { ElementCounters } from "../../../lib/backend/nftables/connections.ts";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../../lib/backend/nftables/kernel/nft.ts";
import { FullScript } from "../../../lib/backend/nftables/script/full_script.ts";
import type { FrontendCount } from "../../../lib/model/kernel/connections.ts";
import { desiredNode } from "../../../lib/policy/node.ts";
import { traitsOf } from "../../support/modes.ts";
import { ManualClock, settle } from "../../support/clock_and_log.ts";
import { configuration } from "../../support/configuration.ts";
import { desiredPort } from "../../observe/connections/desired_port.ts";

const COUNT: FrontendCount = {
  frontend: "IPv4 10.96.0.10 . tcp . 80",
  service: "shop/web",
  connections: 3,
};

const WEB = desiredPort({
  clusterEndpoints: [{ address: "10.244.0.7", port: 8080, local: true, hairpin: true }],
});

/** Two scripts for a dataplane whose nft lists when it is told to. */
function fixture() {
  const clock = new ManualClock();
  const events: string[] = [];
  const listings: (() => void)[] = [];
  const node = desiredNode({
    configuration: configuration(),
    traits: traitsOf("nftables"),
    node: undefined,
    serviceCIDRs: [],
  });
  const nft = new Nft({
    run: async (argv) => {
      if (argv[1] !== "list") {
        events.push("script");
        return { code: 0, stdout: "", stderr: "" };
      }
      const isServices = argv.at(-1) === "services4";
      if (isServices) await new Promise<void>((done) => listings.push(done));
      const stdout =
        `elements = { 10.96.0.10 . tcp . 80 counter packets 3 bytes 9 comment "shop/web:http" : goto x }`;
      return { code: 0, stdout: isServices ? stdout : "", stderr: "" };
    },
  });
  const dataplane = new NftablesDataplane(nft);
  const counters = new ElementCounters({ nft, dataplane, families: [4], clock });
  const script = () => new FullScript({ node, services: new Map([["shop/web", [WEB]]]) });
  return { clock, events, listings, dataplane, counters, script };
}

Deno.test("while frontends are listed one script goes ahead, and the next waits for the listing", async () => {
  const { events, listings, dataplane, counters, script } = fixture();
  const reading = counters.read();
  await settle();
  await dataplane.apply(script());
  assertEquals(events, ["script"]);
  const second = dataplane.apply(script());
  await settle();
  assertEquals(events, ["script"]);
  listings.shift()?.();
  assertEquals([...await reading], [COUNT]);
  await second;
  assertEquals(events, ["script", "script"]);
});

Deno.test("a script does not wait for a listing for ever", async () => {
  const { clock, events, dataplane, counters, script } = fixture();
  void counters.read();
  await settle();
  await dataplane.apply(script());
  const second = dataplane.apply(script());
  await settle();
  await clock.advance(2_000);
  await second;
  assertEquals(events, ["script", "script"]);
});

Deno.test("what elements had counted that go with their table is told once it is replaced", async () => {
  const { events, listings, dataplane, counters, script } = fixture();
  const gone: FrontendCount[] = [];
  counters.onGone((last) => void gone.push(last));
  const replace = () => counters.acrossReplacement(() => dataplane.apply(script()));
  await replace();
  assertEquals(gone, []);
  const again = replace();
  await settle();
  listings.shift()?.();
  await again;
  assertEquals([gone, events], [[COUNT], ["script", "script"]]);
});
