import { assertEquals, assertMatch } from "@std/assert";
import { runSignpost, signpostCommand } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { Stage } from "./stage.ts";

const SETTINGS = [
  "net.ipv4.conf.all.route_localnet",
  "net.netfilter.nf_conntrack_tcp_timeout_close_wait",
];

async function settings(stage: Stage): Promise<string[]> {
  const text = await stage.network.run(NODE, ["sysctl", "-n", ...SETTINGS]);
  return text.trim().split("\n");
}

for (const mode of ["nftables", "iptables"]) {
  Deno.test(`--init-only in ${mode} mode makes only the kernel settings`, async () => {
    const conntrack = { maxPerCore: 0, tcpCloseWaitTimeout: "77s" };
    await using stage = await Stage.create({ config: { mode, conntrack } });
    // No API server is asked.
    const args = ["--config", `${stage.folder}/config.yaml`, "--kubeconfig", "/nowhere"];
    const { code, stderr } = await runSignpost(stage.network, [...args, "--init-only"]);
    assertEquals(code, 0, stderr);
    assertMatch(stderr, /INFO --init-only: the kernel settings are changed/);
    const [localnet, closeWait] = await settings(stage);
    assertEquals([localnet !== "0", closeWait], [mode === "iptables", "77"]);
    const rules = await stage.network.run(NODE, ["nft", "list", "ruleset"]);
    assertEquals(rules.match(/signpost|KUBE-/g), null);
  });
}

Deno.test("--init-only without the right to make a setting that is needed ends with 1", async () => {
  await using stage = await Stage.create({ config: { mode: "iptables" } });
  const signpost = stage.start(["--init-only"], {
    command: [
      "unshare",
      "--mount",
      "sh",
      "-c",
      'mount -o bind,ro /proc/sys /proc/sys && exec "$@"',
      "sh",
      ...signpostCommand(),
    ],
  });
  await using _ = signpost;
  const { code } = await signpost.until("the end", () => signpost.ended);
  assertEquals(code, 1, signpost.log);
  assertMatch(signpost.log, / ERROR net\.ipv4\.conf\.all\.route_localnet cannot be set: /);
});
