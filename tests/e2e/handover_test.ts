import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Variant } from "../../lib/backend/iptables/kernel/programs.ts";
import { FAMILIES } from "../../lib/model/values/address.ts";
import { runSignpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { eventually } from "../support/eventually.ts";
import { ADDRESSES } from "./cluster.ts";
import { HandOverStage, switchObjects } from "./hand_over_stage.ts";
import { installKubeProxy, type KubeProxyMode, LiveKubeProxy } from "./kube_proxy.ts";
import { NftMonitor } from "./nft_monitor.ts";
import { Stage, StateFile } from "./stage.ts";
import { SteadyTraffic } from "./steady_traffic.ts";

type Mode = "nftables" | "iptables";

/** Fewer would not be "hundreds". */
const BEFORE = 200;
const AFTER = 600;

/** Makes the switch under traffic. */
async function switchUnderTraffic(stage: HandOverStage, options: {
  readonly to: Mode;
  readonly args?: readonly string[];
  readonly localhost?: boolean;
  readonly gone: RegExp;
}): Promise<void> {
  const { to, args = [], gone, ...rest } = options;
  await using traffic = await SteadyTraffic.start(stage.network, rest);
  await traffic.more(BEFORE);
  await using signpost = await stage.startSynced(to, args);
  await signpost.until("nothing left of the other", async () => !gone.test(await stage.rules()));
  await traffic.more(AFTER);
  const count = await traffic.stop();
  assert(count > BEFORE + AFTER);
}

/** Matches rules that only kube-proxy writes, in each mode. */
const TRACES: Readonly<Record<KubeProxyMode, RegExp>> = {
  nftables: /kube-proxy \{/,
  iptables: /-j KUBE-SEP-(?!HAIRPIN)|\*mangle[^*]*KUBE-PROXY-CANARY/,
  ipvs: /KUBE-(?:IPVS|NODE-PORT|LOAD-BALANCER|SOURCE)/,
};

interface Direction {
  readonly from: KubeProxyMode;
  readonly backend?: Variant;
  readonly to: Mode;
  /** The backend that kubelet's hint names. */
  readonly hint?: Variant;
}

const DIRECTIONS: readonly Direction[] = [
  { from: "nftables", to: "nftables" },
  { from: "nftables", to: "iptables" },
  { from: "iptables", backend: "-nft", to: "nftables" },
  { from: "iptables", backend: "-legacy", to: "nftables" },
  { from: "iptables", backend: "-nft", to: "iptables" },
  { from: "iptables", backend: "-legacy", to: "iptables" },
  { from: "iptables", backend: "-legacy", to: "iptables", hint: "-nft" },
  { from: "ipvs", backend: "-nft", to: "nftables" },
  { from: "ipvs", backend: "-legacy", to: "iptables" },
];

for (const { from, backend, to, hint } of DIRECTIONS) {
  const by = backend ? ` by iptables${backend}` : "";
  const hinted = hint ? ` by iptables${hint}` : "";
  const name = `kube-proxy's ${from} mode${by} to signpost's ${to} mode${hinted}`;
  Deno.test(`no connection fails from ${name}`, async () => {
    await using stage = await HandOverStage.create();
    if (hint) await stage.hint(hint);
    await stage.installKubeProxy(from, backend);
    const localhost = from === "iptables" && to === "iptables";
    if (localhost) await allowLocalhost(stage);
    await switchUnderTraffic(stage, { to, localhost, gone: TRACES[from] });
  });
}

/** As kube-proxy's iptables mode does it. */
async function allowLocalhost({ network }: HandOverStage): Promise<void> {
  await network.run(NODE, ["sysctl", "-q", "-w", "net.ipv4.conf.all.route_localnet=1"]);
}

for (const backend of ["-nft", "-legacy"] as const) {
  for (const [from, to] of [["iptables", "nftables"], ["nftables", "iptables"]] as const) {
    Deno.test(`no connection fails from signpost's ${from} mode to ${to}, iptables${backend}`, async () => {
      await using stage = await HandOverStage.create();
      await stage.hint(backend);
      await using first = await stage.startSynced(from);
      await first.stop();
      const gone = from === "nftables" ? /table inet signpost/ : /KUBE-SERVICES/;
      await switchUnderTraffic(stage, { to, gone });
    });
  }
}

Deno.test("kube-proxy's tables go in the very transaction in which ours comes", async () => {
  await using stage = await HandOverStage.create();
  await stage.installKubeProxy("nftables");
  await using monitor = await NftMonitor.start(stage.network);
  await using signpost = await stage.startSynced("nftables");
  await signpost.waitForLog(/ synced kind=full/);
  const ours = await eventually(
    "our table is seen",
    () => monitor.transactions.find((lines) => lines.includes("add table inet signpost")),
  );
  const deleted = ours.filter((line) => line.startsWith("delete table"));
  assertEquals(deleted, [
    "delete table ip kube-proxy",
    "delete table ip6 kube-proxy",
    // Of the "add, delete, add" that replaces the table, whatever was there.
    "delete table inet signpost",
  ]);
  assert(ours.some((line) => line.startsWith("add rule inet signpost nat-prerouting")));
  assert(ours.some((line) => line.startsWith("add element inet signpost services4")));
});

/** So short that the check for others, each fourth period, comes soon. */
const SHORT_PERIODS = { nftables: { syncPeriod: "200ms", minSyncPeriod: "10ms" } };

Deno.test("a kube-proxy that is alive is named once", async () => {
  await using stage = await HandOverStage.create(SHORT_PERIODS);
  await stage.installKubeProxy("nftables");
  await using kubeProxy = await LiveKubeProxy.start(stage.network, { hasRules: true });
  await using monitor = await NftMonitor.start(stage.network);
  const deletions = () =>
    monitor.transactions.flat().filter((line) => line === "delete table ip kube-proxy").length;
  await using traffic = await SteadyTraffic.start(stage.network);
  await using signpost = await stage.startSynced("nftables");

  const [line] = await signpost.waitForLog(/.*another proxy keeps writing its rules.*/);
  assertMatch(line, new RegExp(`kube-proxy \\(pid ${kubeProxy.pid}\\)`));
  assertMatch(line, /table ip kube-proxy/);
  const before = deletions();
  // With the first transaction, and once more where kube-proxy was quicker than the look after it.
  assert(before === 1 || before === 2, `${before} deletions`);
  await traffic.more(2 * AFTER);
  assertEquals(deletions(), before);
  assertEquals(signpost.log.match(/another proxy keeps writing/g)?.length, 1);

  await kubeProxy.stop();
  await signpost.waitForLog(/a finding is gone.*another-proxy/);
  await signpost.until(
    "kube-proxy's tables gone",
    async () => !/kube-proxy/.test(await stage.network.run(NODE, ["nft", "list", "tables"])),
  );
  await traffic.more(BEFORE);
  await traffic.stop();
});

Deno.test("a kube-proxy that writes over our chains is named", async () => {
  const periods = { iptables: { syncPeriod: "200ms", minSyncPeriod: "10ms" } };
  await using stage = await HandOverStage.create(periods);
  await using signpost = await stage.startSynced("iptables");
  await using kubeProxy = await LiveKubeProxy.start(stage.network);
  await using traffic = await SteadyTraffic.start(stage.network);
  await stage.installKubeProxy("iptables", "-nft");
  const [line] = await signpost.waitForLog(/.*another proxy keeps writing its rules.*/);
  assertMatch(line, /KUBE chains of iptables-nft, over ours/);
  assertMatch(line, new RegExp(`kube-proxy \\(pid ${kubeProxy.pid}\\)`));
  await kubeProxy.stop();
  await signpost.waitForLog(/a finding is gone.*another-proxy/);
  await signpost.until("our rules", async () => !TRACES.iptables.test(await stage.rules()));
  await traffic.more(BEFORE);
  await traffic.stop();
});

for (const backend of ["-nft", "-legacy"] as const) {
  Deno.test(`the chain that lets Services pass stays if iptables${backend} needs it`, async () => {
    await using stage = await HandOverStage.create();
    const { network } = stage;
    await stage.installKubeProxy("iptables", backend);
    for (const family of FAMILIES) {
      const { clusterCIDR } = ADDRESSES[family];
      const program = `${family === 4 ? "iptables" : "ip6tables"}${backend}`;
      await network.run(NODE, [program, "-P", "FORWARD", "DROP"]);
      await network.run(NODE, [program, "-A", "FORWARD", "-s", clusterCIDR, "-j", "ACCEPT"]);
    }
    await using traffic = await SteadyTraffic.start(network);
    await using signpost = await stage.startSynced("nftables");
    const left = /WARN .*this chain accepts packets of Services.* chain="filter KUBE-FORWARD"/;
    await signpost.waitForLog(left);
    await signpost.until("the rest gone", async () => !/KUBE-S/.test(await stage.rules()));
    assertMatch(await stage.rules(), /-A FORWARD .*-j KUBE-FORWARD/);
    await traffic.more(AFTER);
    await traffic.stop();
  });
}

Deno.test("a saved state from before kube-proxy's rules is not put over them", async () => {
  await using state = await StateFile.create();
  await using stage = await Stage.create({ objects: switchObjects() });
  const { network, api } = stage;
  await using first = await stage.startSynced(state.args);
  const isSaved = () => Deno.stat(state.path).then(() => true, () => false);
  await first.until("the state in its file", isSaved);
  await first.stop();
  assertEquals((await runSignpost(network, ["cleanup"])).code, 0);

  await api.stop();
  await installKubeProxy(network, { mode: "nftables" });
  await using second = stage.start(state.args);
  await second.waitForLog(/the rules in the kernel stay until/);
  const tables = () => network.run(NODE, ["nft", "list", "tables"]);
  assertEquals(await tables(), "table ip kube-proxy\ntable ip6 kube-proxy\n");
  await using traffic = await SteadyTraffic.start(network);
  await traffic.more(BEFORE);
  await api.start();
  await second.until("ours only", async () => await tables() === "table inet signpost\n");
  await traffic.more(BEFORE);
  await traffic.stop();
});
