import { assert, assertEquals, assertRejects } from "@std/assert";
import { ApplyError } from "../../../lib/model/kernel/dataplane.ts";
import { Look } from "../../../lib/backend/nftables/repair.ts";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Counts } from "../../../lib/backend/nftables/delta.ts";
import { NO_CONTENTS } from "../../../lib/backend/nftables/read.ts";
import { FullScript, replacing } from "../../../lib/backend/nftables/write.ts";
import type { DesiredState } from "../../../lib/model/kernel/desired.ts";
import type { ProcessRunner } from "../../../lib/model/ports/ports.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { DenoProcessRunner } from "../../../lib/system/process.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { SystemClock } from "../../../lib/system/clock.ts";
import { Kernel } from "./kernel.ts";
import { clusterObjects } from "../../support/cluster.ts";

/** A state whose endpoint map is written in several pieces. */
function large(): Pipeline {
  const pipeline = new Pipeline();
  pipeline.load([...clusterObjects({ services: 1_500, endpoints: 2 })]);
  return pipeline;
}

/** Runs programs in a namespace, and feeds them as the daemon does. */
function streamingRunner({ prefix }: Kernel): ProcessRunner {
  const runner = new DenoProcessRunner();
  const [program = "", ...args] = prefix;
  return { run: (argv, stdin) => runner.run([program, ...args, ...argv], stdin) };
}

function piecesOf(desired: DesiredState, prologue = ""): Iterable<string> {
  const script = new FullScript(desired);
  return replacing(script, { prologue, clients: NO_CONTENTS, counts: new Counts() });
}

Deno.test("a large table comes in pieces", async () => {
  await using kernel = await Kernel.create();
  const { desired } = large();
  const dataplane = new NftablesDataplane(new Nft(streamingRunner(kernel)));
  const script = dataplane.full(desired);
  await dataplane.apply(script);
  const pieces = [...piecesOf(desired)];
  assert(pieces.filter((text) => text.includes(" endpoints-tcp4 {\n")).length > 1);
  assertEquals(script.bytes, pieces.join("").length);
  const { elements } = dataplane;
  assertEquals(elements.get("endpoints-tcp4"), 3_000);
  const listing = await kernel.nft.listTable();
  for (const [set, count] of elements) {
    const block = listing.split(/^\t(?=set|map|chain)/m)
      .find((each) => each.startsWith(`map ${set} {`) || each.startsWith(`set ${set} {`)) ?? "";
    const [, list = ""] = /elements = \{([^]*?)\}/.exec(block) ?? [];
    assertEquals(list.split(",").length, count, set);
  }
  assertEquals(await kernel.ruleCounts(), new Map(dataplane.ruleCounts));
});

Deno.test("a script that is cut off between two pieces leaves the kernel as it was", async () => {
  await using kernel = await Kernel.create();
  const { desired } = large();
  await kernel.script("table inet signpost { chain before { }; }");
  const pieces = [...piecesOf(desired, "add table inet other\n")];
  for (let count = 1; count < pieces.length; count++) {
    await assertRejects(() => kernel.nft.apply(pieces.slice(0, count).join("")), ApplyError);
  }
  assertEquals([...await kernel.ruleCounts()], [["before", 0]]);
  assertEquals(await kernel.nft.listTables(), ["inet signpost"]);
});

Deno.test("where nft cannot read the pieces one by one it gets all of them at once", async () => {
  await using kernel = await Kernel.create();
  const { desired } = large();
  const calls: string[] = [];
  const runner = streamingRunner(kernel);
  const nft = new Nft({
    run: ([name, ...args], stdin) => {
      calls.push([name, ...args].join(" "));
      const reachable = args.map((each) => each === "/dev/fd/0" ? "/no/such/path" : each);
      return runner.run([name, ...reachable], stdin);
    },
  });
  const dataplane = new NftablesDataplane(nft);
  await dataplane.apply(dataplane.full(desired));
  assertEquals(calls, ["nft -f /dev/fd/0", "nft -f -", "nft -f -"]);
  const clock = new SystemClock();
  const look = new Look({ nft: kernel.nft, dataplane, desired, clock });
  assertEquals(await look.contents(), undefined);
});
