import { assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import type { Network } from "../support/network.ts";
import { HAS_FLOWTABLES } from "../support/flowtables.ts";
import { FOREIGN_TABLE } from "../support/foreign_table.ts";
import type { Programs } from "../support/programs.ts";
import { runSignpost, type Signpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, service, slice } from "./cluster.ts";
import { assertFlows, type Flow } from "./flow.ts";
import { HandOverStage } from "./hand_over_stage.ts";
import { Stage, syncs } from "./stage.ts";
import { prepareNft } from "../../tools/kernels/nft.ts";
import { Packages } from "../../tools/kernels/packages.ts";

const A = ADDRESSES[4];
const FLOWS: readonly Flow[] = [
  { from: "pod", to: A.clusterIP, reaches: ["local1", "remote1"] },
  { from: "client", to: A.loadBalancer, reaches: ["local1", "remote1"], masqueraded: true },
];
/** Matches the line in log and errors. */
const CRASH =
  /nft 1\.0\.6 crashes on table inet hostfw, so signpost cannot write rules: Install nft 1\.1\.3 or newer .*--proxy-mode iptables/;

/** Downloads Debian 13's nft (1.1.3). It comes before that of this machine in the PATH. */
async function newerNft(): Promise<Programs> {
  await using resources = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "signpost-newer-nft-" });
  resources.defer(() => Deno.remove(folder, { recursive: true }));
  const path = await prepareNft(new Packages(folder), "trixie");
  const kept = resources.move();
  return {
    env: { PATH: `${path}:${Deno.env.get("PATH") ?? ""}` },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

function applyNewer(network: Network, { env }: Programs, script: string): Promise<string> {
  return network.run(NODE, ["nft", "-f", "-"], { env, stdin: script });
}

Deno.test("on a node with a table of a newer nft", async (test) => {
  await using newer = await newerNft();

  await test.step("iptables mode serves beside a table that crashes nft", async () => {
    await using stage = await HandOverStage.create();
    await applyNewer(stage.network, newer, FOREIGN_TABLE);
    await using signpost = stage.start();
    await signpost.waitForLog(/ synced kind=full/);
    assertMatch(signpost.log, / started .*mode=iptables/);
    const lines = signpost.log.match(/^.*iptables is used.*$/gm) ?? [];
    assertEquals(lines.length, 1, signpost.log);
    assertMatch(lines[0] ?? "", CRASH);
    await assertFlows(stage.network, FLOWS);
    await signpost.stop();
    const { code, stderr } = await runSignpost(stage.network, ["cleanup"]);
    assertEquals(code, 0, stderr);
    assertNotMatch(await stage.network.run(NODE, ["iptables-nft-save"]), /KUBE-/);
  });

  await test.step("iptables mode takes over from nftables mode, whose rules are flushed", async () => {
    await using stage = await HandOverStage.create();
    {
      await using _ = await stage.startSynced("nftables");
    }
    await applyNewer(stage.network, newer, FOREIGN_TABLE);
    await using signpost = stage.start();
    await signpost.waitForLog(/took over; .*table inet signpost/);
    assertMatch(
      signpost.log,
      /WARN tables cannot be deleted: their rules are flushed.*inet hostfw/,
    );
    assertEquals(await countRules(stage.network, newer), 0);
    await assertFlows(stage.network, FLOWS);
  });

  await test.step("mode nftables ends with an error that names the table", async () => {
    await using stage = await HandOverStage.create({ mode: "nftables" });
    await applyNewer(stage.network, newer, FOREIGN_TABLE);
    const { code, stderr } = await runSignpost(stage.network, stage.args);
    assertEquals(code, 1);
    assertMatch(stderr, CRASH);
    const [, config = ""] = stage.args;
    const check = await runSignpost(stage.network, ["check", "--config", config]);
    assertEquals(check.code, 2);
    assertMatch(check.stdout, CRASH);
    const socket = `/run/signpost/e2e-${crypto.randomUUID()}.sock`;
    const status = await runSignpost(stage.network, [
      ...["status", "--config", config, "--socket", socket],
    ]);
    assertEquals(status.code, 1);
    assertMatch(status.stderr, /no daemon can write rules here: /);
    assertMatch(status.stderr, CRASH);
  });

  await test.step("a sync that fails keeps the rules", async () => {
    await using stage = await Stage.create({
      objects: [service(A), slice(A, ["local1"])],
      config: { nftables: { minSyncPeriod: "50ms", syncPeriod: "1s" } },
    });
    await using signpost = await stage.startSynced();
    await applyNewer(stage.network, newer, FOREIGN_TABLE);
    stage.apply(slice(A, ["local1", "remote1"]));
    await signpost.waitForLog(/ERROR .*sync failed: nft 1\.0\.6 crashes on table inet hostfw/);
    await signpost.waitForLog(/ERROR .* finding=nft-crashes where="table inet hostfw"/);
    await signpost.until("a second look at the table", () => looks(signpost) > 1);
    assertEquals(await stage.metric("signpost_drift_repairs_total"), 0);
    assertNotMatch(signpost.log, /another program has changed/);
    await assertFlows(stage.network, [{ from: "pod", to: A.clusterIP, reaches: ["local1"] }]);
    await applyNewer(stage.network, newer, "delete table inet hostfw\n");
    await stage.flowsBecome(signpost, [
      { from: "pod", to: A.clusterIP, reaches: ["local1", "remote1"] },
    ]);
    await signpost.until("the full sync", () => syncs(signpost, "full") > 1);
    await signpost.waitForLog(/a finding is gone finding=nft-crashes/);
  });

  await test.step("cleanup flushes our rules", async () => {
    await using stage = await HandOverStage.create();
    {
      await using _ = await stage.startSynced("nftables");
    }
    await applyNewer(stage.network, newer, FOREIGN_TABLE);
    const { code, stderr } = await runSignpost(stage.network, ["cleanup"]);
    assertMatch(stderr, /their rules are flushed, and empty tables stay/);
    assertMatch(stderr, CRASH);
    assertEquals([code, await countRules(stage.network, newer)], [0, 0], stderr);
    await stage.network.flushConntrack();
    await assertFlows(stage.network, [{ from: "pod", to: A.clusterIP, reaches: "world" }]);
  });

  await test.step("signpost with that newer nft serves in nftables mode", async () => {
    await using stage = await HandOverStage.create();
    await applyNewer(stage.network, newer, FOREIGN_TABLE);
    await using signpost = stage.start([], newer.env);
    await signpost.waitForLog(/ synced kind=full/);
    assertMatch(signpost.log, / started .*mode=nftables/);
    await assertFlows(stage.network, FLOWS);
  });
});

Deno.test("an older nft reads every table of ours that a newer one wrote", async () => {
  await using newer = await newerNft();
  await using stage = await HandOverStage.create();
  const golden = new URL("../testdata/golden/", import.meta.url);
  for (const { name } of Deno.readDirSync(golden)) {
    if (!/^[^.]+\.nftables$/.test(name)) continue;
    if (name.startsWith("acceleration.") && !HAS_FLOWTABLES) continue;
    await applyNewer(stage.network, newer, await Deno.readTextFile(new URL(name, golden)));
    const listing = await stage.network.run(NODE, ["nft", "list", "ruleset"]);
    assertMatch(listing, /table inet signpost/, name);
  }
});

/** The rules of our table, as the newer nft counts them. */
async function countRules(network: Network, { env }: Programs): Promise<number> {
  const table = await network.run(NODE, ["nft", "-t", "list", "table", "inet", "signpost"], {
    env,
  });
  const chains = table.match(/^\tchain \S+ \{\n[^]*?^\t\}/gm) ?? [];
  return chains.join("\n").match(/^\t\t(?!type \w+ hook )/gm)?.length ?? 0;
}

/** How often the table was looked at since it could not be read. */
function looks(signpost: Signpost): number {
  return signpost.log.match(/cannot read the table|the table has the desired rules/g)
    ?.length ?? 0;
}
