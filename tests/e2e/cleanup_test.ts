import { assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import type { CommandResult } from "../support/command.ts";
import { linkPrograms } from "../support/programs.ts";
import { runSignpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { HandOverStage, SAVE_PROGRAMS } from "./hand_over_stage.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("cleanup");

/** Rules of a firewall, a CNI and kubelet, some close to ours. */
const FOREIGN_CHAINS = `*mangle
:TUNNEL-MARK - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
:MINE - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment "kubernetes is mentioned here" -j MINE
-A FORWARD -i nowhere -j DROP
COMMIT
*nat
:CNI-HOSTPORT-DNAT - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
COMMIT
`;

const FOREIGN_TABLES = `table inet signpost-not-quite {
  chain input {
    type filter hook input priority 10; policy accept;
    ct state invalid drop
  }
}
table ip kube-proxy-exporter {
  set seen { type ipv4_addr; elements = { 192.0.2.1 } }
}
`;

type Mode = "nftables" | "iptables";

/** A node on which others have rules in both backends and in nftables; `hint` is kubelet's backend. */
async function createStage(hint?: string): Promise<HandOverStage> {
  await using resources = new AsyncDisposableStack();
  const stage = resources.use(await HandOverStage.create());
  const { network } = stage;
  for (const program of SAVE_PROGRAMS.map((name) => name.replace("-save", "-restore"))) {
    await network.run(NODE, [program, "--noflush"], { stdin: FOREIGN_CHAINS });
  }
  await network.applyNft(FOREIGN_TABLES);
  if (hint) await stage.hint(hint);
  resources.move();
  return stage;
}

async function runDaemon(stage: HandOverStage, mode: Mode): Promise<void> {
  await using signpost = await stage.startSynced(mode);
  await signpost.stop();
}

async function cleanUp(
  { network }: HandOverStage,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CommandResult> {
  return await runSignpost(network, args, { env });
}

const SIGNPOSTS: readonly { readonly mode: Mode; readonly backend?: string }[] = [
  { mode: "nftables" },
  { mode: "iptables", backend: "-nft" },
  { mode: "iptables", backend: "-legacy" },
];

for (const { mode, backend } of SIGNPOSTS) {
  const name = backend ? `${mode} mode by iptables${backend}` : `${mode} mode`;
  for (const args of [["cleanup"], ["--cleanup"]]) {
    test(`signpost ${args} leaves the kernel as it was before signpost's ${name}`, async () => {
      await using stage = await createStage(backend);
      const before = await stage.rules();
      await runDaemon(stage, mode);
      const during = await stage.rules();
      assertMatch(during, /10\.96\.0\.10/);

      const planned = await cleanUp(stage, [...args, "--dry-run"]);
      assertEquals(planned.code, 0);
      assertEquals(await stage.rules(), during);
      assertMatch(
        planned.stdout,
        backend ? new RegExp(`^# iptables${backend}-restore --noflush$`, "m") : /^# nft -f -$/m,
      );

      const { code, stderr } = await cleanUp(stage, args);
      assertEquals(code, 0, stderr);
      assertEquals(await stage.rules(), before);
      const again = await cleanUp(stage, [...args, "--dry-run"]);
      assertEquals([again.code, again.stdout], [0, ""]);
    });
  }
}

test("what --dry-run prints does what cleanup does", async () => {
  await using stage = await createStage("-legacy");
  const before = await stage.rules();
  await runDaemon(stage, "iptables");
  const { stdout } = await cleanUp(stage, ["cleanup", "--dry-run"]);
  const scripts = stdout.split(/^# (.*)\n/m).slice(1);
  assertEquals(scripts.length, 4);
  for (let i = 0; i < scripts.length; i += 2) {
    const [program = "", stdin = ""] = scripts.slice(i, i + 2);
    await stage.network.run(NODE, program.split(" "), { stdin });
  }
  assertEquals(await stage.rules(), before);
});

for (const backend of ["-nft", "-legacy"] as const) {
  test(`kube-proxy's rules in iptables${backend} go with --kube-proxy only`, async () => {
    await using stage = await createStage();
    const before = await stage.rules();
    await stage.installKubeProxy("iptables", backend);
    await stage.installKubeProxy("nftables");
    const during = await stage.rules();
    assertEquals((await cleanUp(stage, ["cleanup"])).code, 0);
    assertEquals(await stage.rules(), during);
    assertEquals((await cleanUp(stage, ["--cleanup"])).code, 0);
    assertEquals(await stage.rules(), during);

    const planned = await cleanUp(stage, ["cleanup", "--kube-proxy", "--dry-run"]);
    assertMatch(planned.stdout, /^delete table ip6 kube-proxy$/m);
    assertEquals(await stage.rules(), during);
    assertEquals((await cleanUp(stage, ["cleanup", "--kube-proxy"])).code, 0);
    assertEquals(await stage.rules(), before);
  });
}

test("a cleanup removes nothing of a kube-proxy that has replaced our rules", async () => {
  await using stage = await createStage();
  await runDaemon(stage, "iptables");
  await stage.installKubeProxy("iptables", "-nft");
  const lines = async () => (await stage.rules()).split("\n").filter((line) => /^[:-]/.test(line));
  const during = await lines();
  assertEquals((await cleanUp(stage, ["cleanup"])).code, 0);
  assertEquals(await lines(), during);
});

test("what ipvs mode left goes with --kube-proxy, its interface too", async () => {
  await using stage = await createStage();
  const before = await stage.rules();
  await stage.installKubeProxy("ipvs", "-legacy");
  const { code, stderr } = await cleanUp(stage, ["cleanup", "--kube-proxy"]);
  assertEquals(code, 0, stderr);
  assertEquals(await stage.rules(), before);
  assertNotMatch(await stage.network.run(NODE, ["ip", "link"]), /kube-ipvs0/);
});

test("both proxies' rules side by side: without --kube-proxy only ours go", async () => {
  await using stage = await createStage();
  await stage.installKubeProxy("iptables", "-nft");
  const before = await stage.rules();
  const once = await runSignpost(stage.network, [...stage.args, "--once"]);
  await stage.network.applyNft(once.stdout);
  assertMatch(await stage.rules(), /table inet signpost \{/);
  assertEquals((await cleanUp(stage, ["cleanup"])).code, 0);
  assertEquals(await stage.rules(), before);
});

test("cleanup leaves connections alone", async () => {
  await using stage = await createStage();
  const { network } = stage;
  await runDaemon(stage, "iptables");
  const read = async (name: string) => (await network.run(NODE, ["sysctl", "-n", name])).trim();
  assertEquals(await read("net.ipv4.conf.all.route_localnet"), "1");
  await network.run(NODE, [
    ...["conntrack", "-I", "-p", "udp", "-s", "192.0.2.1", "-d", "192.0.2.2"],
    ...["--sport", "1", "--dport", "2", "-t", "600"],
  ]);
  const { code, stderr } = await cleanUp(stage, ["cleanup"]);
  assertEquals(code, 0, stderr);
  assertMatch(await network.run(NODE, ["conntrack", "-L"]), /src=192\.0\.2\.1 dst=192\.0\.2\.2/);
  assertEquals(await read("net.ipv4.conf.all.route_localnet"), "1");
  assertMatch(stderr, /run sysctl -w net\.ipv4\.conf\.all\.route_localnet=0/);
  assertMatch((await cleanUp(stage, ["cleanup"])).stderr, /found no rules to remove/);
});

test("cleanup does its part where programs are missing", async () => {
  await using stage = await createStage("-nft");
  const before = await stage.rules();
  await runDaemon(stage, "nftables");
  await using onlyNft = await linkPrograms(["ip", "nft"]);
  const first = await cleanUp(stage, ["cleanup"], onlyNft.env);
  assertEquals([first.code, await stage.rules()], [0, before], first.stderr);

  await runDaemon(stage, "iptables");
  const names = ["iptables", "ip6tables"].flatMap((name) => [
    ...["", "-save", "-restore"].map((tool) => `${name}-nft${tool}`),
  ]);
  await using onlyIptables = await linkPrograms(["ip", ...names]);
  const second = await cleanUp(stage, ["cleanup"], onlyIptables.env);
  assertEquals([second.code, await stage.rules()], [0, before], second.stderr);

  await using nothing = await linkPrograms(["ip"]);
  const third = await cleanUp(stage, ["cleanup"], nothing.env);
  assertEquals([third.code, third.stdout], [0, ""], third.stderr);
});

test("a locked iptables is a failure, but the rest is cleaned up", async () => {
  await using stage = await createStage("-legacy");
  await runDaemon(stage, "iptables");
  const during = await stage.network.run(NODE, ["iptables-legacy-save"]);
  const once = await runSignpost(stage.network, [...stage.args, "--once"]);
  await stage.network.applyNft(once.stdout);
  await using lock = await stage.lockIptables();
  const { code, stderr } = await cleanUp(stage, ["cleanup"], lock.env);
  assertEquals(code, 1);
  assertMatch(stderr, /another program held the iptables lock for 5 s/);
  assertNotMatch(await stage.network.run(NODE, ["nft", "list", "tables"]), /inet signpost$/m);
  const counters = (text: string) => text.replace(/^#.*\n/gm, "").replace(/\[\d+:\d+\]/g, "");
  const after = await stage.network.run(NODE, ["iptables-legacy-save"]);
  assertEquals(counters(after), counters(during));
});
