import { assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { execute } from "../support/command.ts";
import { linkPrograms, programPath, type Programs } from "../support/programs.ts";
import { runSignpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { HandOverStage } from "./hand_over_stage.ts";
import { ADDRESSES } from "./cluster.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { service as buildService } from "../support/cluster.ts";

const test = sideBySide("the choice of a mode");

/** Every program of iptables that signpost may run. */
const IPTABLES = ["iptables", "ip6tables"].flatMap((name) =>
  ["", "-nft", "-legacy"].flatMap((backend) =>
    ["", "-save", "-restore"].map((tool) => `${name}${backend}${tool}`)
  )
);

/** A node whose nft refuses scripts that have one of these words, as a kernel without the module does. */
async function nftWithout(words: readonly string[]): Promise<Programs> {
  const real = await programPath("nft");
  const script = `for last; do :; done
[ "$last" = - ] || exec ${real} "$@"
input=$(cat)
case "$input" in
${words.map((word) => `*"${word}"*)`).join("\n")}
  echo "Error: Could not process rule: No such file or directory" >&2
  exit 1;;
esac
printf '%s\\n' "$input" | exec ${real} "$@"
`;
  return await linkPrograms([...IPTABLES, "ip", "sysctl", "conntrack", "cat"], { nft: script });
}

test("without a mode nftables is used where it works", async () => {
  await using stage = await HandOverStage.create();
  await using signpost = stage.start();
  await signpost.waitForLog(/ synced kind=full/);
  assertMatch(signpost.log, / started .*mode=nftables/);
  assertMatch(await stage.network.run(NODE, ["nft", "list", "tables"]), /^table inet signpost$/m);
  assertNotMatch(signpost.log, /iptables is used|iptables variant/);
});

test("a kernel without fib makes iptables the default mode", async () => {
  await using stage = await HandOverStage.create();
  await using programs = await nftWithout(["fib "]);
  await using signpost = stage.start([], programs.env);
  await signpost.waitForLog(/ synced kind=full/);
  assertMatch(signpost.log, / started .*mode=iptables/);
  const lines = signpost.log.match(/^.*iptables is used.*$/gm) ?? [];
  assertEquals(lines.length, 1, signpost.log);
  assertMatch(
    lines[0] ?? "",
    / WARN .*nft [\d.]+ on kernel \S+ refuses: .*No such file or directory.*: run modprobe -a nft_fib_inet on/,
  );
  assertMatch(await stage.rules(), /-A KUBE-SERVICES -d 10\.96\.0\.10/);
});

test("the Services work without counters that nft refuses", async () => {
  await using stage = await HandOverStage.create();
  await using programs = await nftWithout(["; counter"]);
  await using signpost = stage.start([], programs.env);
  await signpost.waitForLog(/ synced kind=full/);
  assertMatch(signpost.log, / started .*mode=nftables/);
  const lines = signpost.log.match(/^.*INFO connections are not counted by Service: nft .*$/gm) ??
    [];
  assertEquals(lines.length, 1, signpost.log);
  const table = await stage.network.run(NODE, ["nft", "list", "table", "inet", "signpost"]);
  assertNotMatch(table, /counter/);
  assertMatch(table, /10\.96\.0\.10 \. tcp/);
});

test("Services keep the usual path if flowtables are refused", async () => {
  await using stage = await HandOverStage.create();
  await using programs = await nftWithout(["flow add"]);
  await using signpost = stage.start(["--acceleration-interfaces", "*"], programs.env);
  await signpost.waitForLog(/ synced kind=full/);
  const lines = signpost.log.match(/^.*WARN long connections do not take the fast path: nft .*$/gm);
  assertEquals(lines?.length, 1, signpost.log);
  assertMatch(lines?.[0] ?? "", /modprobe -a nft_flow_offload nf_flow_table_inet/);
  const table = await stage.network.run(NODE, ["nft", "list", "table", "inet", "signpost"]);
  assertNotMatch(table, /accelerate|flowtable/);
  assertMatch(table, /10\.96\.0\.10 \. tcp/);
});

test("--once says what this machine would refuse", async () => {
  await using stage = await HandOverStage.create();
  await using programs = await nftWithout(["flow add"]);
  const args = [...stage.args, "--once", "--acceleration-interfaces", "*"];
  const { code, stdout, stderr } = await runSignpost(stage.network, args, { env: programs.env });
  assertEquals(code, 0, stderr);
  assertMatch(stdout, /flow add @fast-path/);
  const lines = stderr.match(/^.*this machine would refuse a part of the script: .*$/gm);
  assertEquals(lines?.length, 1, stderr);
  assertMatch(lines?.[0] ?? "", /long connections do not take the fast path: nft /);
});

/** A Service with source ranges, and one without. */
const RANGED_SERVICES = ["ranged", "open"].map((name, i) =>
  buildService({
    namespace: "shop",
    name,
    type: "LoadBalancer",
    clusterIP: `10.96.7.${i + 1}`,
    ports: [{ name: "http", port: 80, protocol: "TCP" }],
    ...name === "ranged" && { loadBalancerSourceRanges: ["198.51.100.0/24"] },
    ingress: [`192.0.2.${201 + i}`],
  })
);

test("a Service with refused source ranges is refused alone", async () => {
  await using stage = await HandOverStage.create();
  await using programs = await nftWithout(["source-ranges"]);
  const manifest = await Deno.makeTempFile({ prefix: "signpost-ranged-", suffix: ".json" });
  try {
    await Deno.writeTextFile(
      manifest,
      JSON.stringify({ apiVersion: "v1", kind: "List", items: RANGED_SERVICES }),
    );
    const more = ["--manifests", manifest];
    const refusal = /shop\/ranged is refused: its load-balancer IPs get no rules, .*No such file/g;
    {
      await using signpost = stage.start(more, programs.env);
      await signpost.waitForLog(new RegExp(refusal.source));
      assertMatch(signpost.log, / started .*mode=nftables/);
      assertEquals(signpost.log.match(refusal)?.length, 1, signpost.log);
    }
    const rules = await stage.rules();
    for (const address of ["10.96.7.1", "10.96.7.2", "192.0.2.202", ADDRESSES[4].loadBalancer]) {
      assertMatch(rules, new RegExp(`${address.replaceAll(".", "\\.")} \\. tcp \\. `));
    }
    assertNotMatch(rules, /192\.0\.2\.201|firewall|source-ranges/);
    const once = await runSignpost(stage.network, [...stage.args, ...more, "--once"], programs);
    assertEquals([once.code, once.stderr.match(refusal)?.length], [0, 1], once.stderr);
    assertMatch(once.stdout, /192\.0\.2\.201/);
    const explain = await runSignpost(
      stage.network,
      ["explain", "shop/ranged", ...stage.args, ...more],
      programs,
    );
    assertEquals(explain.code, 1);
    assertMatch(
      explain.stdout,
      /refused on this node: its load-balancer IPs get no rules.*\[not-supported\]/,
    );
    const verify = await runSignpost(
      stage.network,
      ["verify", ...stage.args.slice(0, 4), ...more],
      programs,
    );
    assertEquals(verify.code, 0, verify.stdout + verify.stderr);
  } finally {
    await Deno.remove(manifest);
  }
});

test("a node without nft uses iptables by default", async () => {
  await using stage = await HandOverStage.create();
  await using programs = await linkPrograms([...IPTABLES, "ip", "sysctl", "conntrack"]);
  await using signpost = stage.start([], programs.env);
  await signpost.waitForLog(/ synced kind=full/);
  const lines = signpost.log.match(/^.*iptables is used.*$/gm) ?? [];
  assertEquals(lines.length, 1, signpost.log);
  assertMatch(lines[0] ?? "", /the program nft cannot be run: install it/);
});

test("a mode that was asked for is not replaced by another", async () => {
  await using stage = await HandOverStage.create();
  await using noFib = await nftWithout(["fib "]);
  const nftables = [...stage.args, "--proxy-mode", "nftables"];
  const first = await runSignpost(stage.network, nftables, noFib);
  assertEquals(first.code, 1);
  assertMatch(first.stderr, /expressions that are not available: fib .*--proxy-mode iptables/);

  await using noIptables = await linkPrograms(["ip", "nft"]);
  const iptables = [...stage.args, "--proxy-mode", "iptables"];
  const second = await runSignpost(stage.network, iptables, noIptables);
  assertEquals(second.code, 1);
  assertMatch(second.stderr, /cannot run iptables: install iptables/);
  assertEquals(await stage.rules(), "");
});

test("the iptables variant is that of kubelet's hint", async () => {
  await using stage = await HandOverStage.create();
  const { network } = stage;
  await stage.hint("-legacy");
  await network.run(NODE, ["iptables-legacy", "-A", "INPUT", "-j", "ACCEPT"]);
  for (let i = 0; i < 3; i++) {
    await network.run(NODE, ["iptables-nft", "-A", "INPUT", "-i", `nowhere${i}`, "-j", "ACCEPT"]);
  }
  await using signpost = await stage.startSynced("iptables");
  assertMatch(signpost.log, /iptables variant: kubelet's chain KUBE-IPTABLES-HINT is there/);
  assertMatch(signpost.log, / WARN both iptables-nft and iptables-legacy have rules on this node/);
  assertMatch(await network.run(NODE, ["iptables-legacy-save"]), /KUBE-SVC-/);
  assertNotMatch(await network.run(NODE, ["iptables-nft-save"]), /KUBE-SVC-/);
});

test("a node with one backend keeps its rules when the others' are removed", async () => {
  await using stage = await HandOverStage.create();
  const names = IPTABLES.filter((name) => !name.includes("legacy"));
  await using programs = await linkPrograms([...names, "ip", "nft", "sysctl", "conntrack"]);
  await stage.installKubeProxy("nftables");
  await using signpost = stage.start(["--proxy-mode", "iptables"], programs.env);
  await signpost.waitForLog(/took over/);
  await signpost.until(
    "kube-proxy's table gone",
    async () => !/kube-proxy/.test(await stage.network.run(NODE, ["nft", "list", "tables"])),
  );
  assertNotMatch(signpost.log, /KUBE chains/);
  assertMatch(await stage.rules(), /-A KUBE-SERVICES -d 10\.96\.0\.10/);
});

test("waits for the iptables lock are bounded", async () => {
  await using stage = await HandOverStage.create();
  const { network } = stage;
  await stage.hint("-legacy");
  await stage.installKubeProxy("iptables", "-legacy");
  const save = async () =>
    (await network.run(NODE, ["iptables-legacy-save", "-t", "nat"])).replace(
      /\[\d+:\d+\]|^#.*$/gm,
      "",
    );
  const before = await save();
  const lock = await stage.lockIptables();
  await using signpost = stage.start(["--proxy-mode", "iptables"], lock.env);
  await signpost.waitForLog(
    /ERROR full sync failed: .*held the iptables lock for 5 s; .*trying again/,
  );
  assertEquals(await save(), before);
  await lock[Symbol.asyncDispose]();
  await signpost.waitForLog(/ synced kind=full/);
  assertMatch(await save(), /comment signpost/);
  assertMatch(await network.run(NODE, ["ip6tables-legacy-save"]), /comment signpost/);
});

test("--once prints iptables input that both families' programs take", async () => {
  await using stage = await HandOverStage.create();
  const args = [...stage.args, "--proxy-mode", "iptables", "--once"];
  const { code, stdout } = await runSignpost(stage.network, args);
  assertEquals(code, 0);
  const [empty, ...scripts] = stdout.split(/^# (ip6?tables-restore)\n/m);
  assertEquals([empty, scripts[0], scripts[2]], ["", "iptables-restore", "ip6tables-restore"]);
  const prefix = ["ip", "netns", "exec", stage.network.namespaceOf(NODE)];
  for (const [program, stdin] of [[scripts[0], scripts[1]], [scripts[2], scripts[3]]]) {
    const options = { stdin: stdin ?? "" };
    const result = await execute([...prefix, program ?? "", "--noflush"], options);
    assertEquals([result.code, result.stderr], [0, ""]);
  }
});
