import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { writeConfig } from "../../lib/cli/write_config.ts";
import { parse } from "@std/yaml";
import { FatalError } from "../../lib/model/values/errors.ts";
import { fieldAt } from "../../lib/model/values/record.ts";
import { configurationOf, load, loadFile, runOf } from "../config/support.ts";
import { world } from "./runtime.ts";

const FLAGS = ["--cluster-cidr=10.0.0.0/8", "--proxy-mode=iptables", "--conntrack-min=7"];

Deno.test("--write-config-to writes a file that is read as the same configuration", async () => {
  const { configuration, settings } = runOf(await load(FLAGS));
  const written: string[] = [];
  const { runtime, logger } = world({
    writeFile: (path, text) => {
      written.push(path, String(text));
      return Promise.resolve();
    },
  });
  await writeConfig({ path: "/run/signpost/x", settings, runtime, logger });
  const [path, text = ""] = written;
  assertEquals(path, "/run/signpost/x");
  assertMatch(text, /^apiVersion: kubeproxy\.config\.k8s\.io\/v1alpha1$/m);
  assertEquals(configurationOf(await load(["--config=x"], { x: text })), configuration);
});

Deno.test("--write-config-to=/dev/stdout prints it", async () => {
  const { settings } = runOf(await load(FLAGS));
  const { runtime, logger, printed } = world();
  await writeConfig({ path: "/dev/stdout", settings, runtime, logger });
  assertMatch(printed.join(""), /^kind: KubeProxyConfiguration$/m);
});

Deno.test("--write-config-to writes what was configured, not what the mode makes of it", async () => {
  const cases: readonly (readonly [yaml: string, path: readonly string[], value: unknown])[] = [
    ["mode: ipvs", ["mode"], "ipvs"],
    ["mode: ipvs", ["nodePortAddresses"], null],
    ["mode: ipvs\nipvs: {scheduler: wlc, tcpTimeout: 15m}", ["ipvs", "scheduler"], "wlc"],
    ["mode: ipvs\nipvs: {scheduler: rr}", ["signpost", "scheduler"], null],
    ["mode: ipvs\nipvs: {tcpTimeout: 15m}", ["conntrack", "tcpEstablishedTimeout"], null],
    ["mode: ipvs\niptables: {masqueradeAll: true}", ["nftables", "masqueradeAll"], null],
    ["mode: ipvs\nconntrack: {udpTimeout: 9s}", ["conntrack", "udpTimeout"], "9s"],
    ["mode: nftables", ["nftables", "masqueradeBit"], 14],
    ['mode: ""\niptables: {masqueradeBit: 7}', ["nftables", "masqueradeBit"], null],
  ];
  for (const [yaml, path, value] of cases) {
    const { configuration, settings } = runOf(await loadFile(yaml));
    const { runtime, logger, printed } = world();
    await writeConfig({ path: "/dev/stdout", settings, runtime, logger });
    const text = printed.join("");
    assertEquals(fieldAt(parse(text), ...path), value, yaml);
    const again = runOf(await load(["--config=x"], { x: text }));
    assertEquals(again.configuration, configuration, yaml);
  }
});

Deno.test("a file that may not be written is one line that says where signpost may write", async () => {
  const { runtime, logger } = world({
    writeFile: () => Promise.reject(new Error("Requires write access")),
  });
  const { settings } = runOf(await load([]));
  const error = await assertRejects(
    () => writeConfig({ path: "/etc/x", settings, runtime, logger }),
    FatalError,
  );
  assertMatch(error.message, /^--write-config-to: \/etc\/x cannot be written: .*\/dev\/stdout$/);
});
