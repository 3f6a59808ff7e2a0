import { assertEquals, assertMatch } from "@std/assert";
import { checkAcceleration, checkMode } from "../../lib/findings/mode.ts";
import type { Configuration } from "../../lib/config/configuration.ts";
import { configurationOf, load, loadFile, runOf } from "../config/support.ts";
import type { Mode } from "../support/modes.ts";
import { factsOf, listOf } from "./facts.ts";

function said(configuration: Configuration, mode: Mode = "nftables"): string {
  return listOf(checkMode({ ...factsOf([], { mode }), configuration })).map(({ what }) => what)
    .join();
}

async function saidOf(...argv: readonly string[]): Promise<string> {
  return said(configurationOf(await load(argv)));
}

Deno.test("without a mode, a finding says how node ports differ", async () => {
  assertMatch(await saidOf(), /primary addresses only, never on 127\.0\.0\.1;/);
  for (const addresses of ["0.0.0.0/0", "all"]) {
    assertMatch(await saidOf(`--nodeport-addresses=${addresses}`), /never answer on 127/);
  }
  for (const addresses of ["127.0.0.0/8,10.0.0.0/8", "primary,localhost", "all,localhost"]) {
    assertMatch(await saidOf(`--nodeport-addresses=${addresses}`), /on 127\.0\.0\.1 for TCP alone/);
  }
});

Deno.test("without a mode, a finding says how segments outside the TCP window differ", async () => {
  const said = await saidOf("--nodeport-addresses=10.0.0.0/8");
  assertMatch(said, /iptables: a TCP segment outside the window may reset its connection/);
  assertMatch(await saidOf(), /127\.0\.0\.1; a TCP segment outside the window/);
});

Deno.test("equal modes give no finding", async () => {
  const liberal = "--conntrack-tcp-be-liberal";
  assertEquals(await saidOf("--nodeport-addresses=10.0.0.0/8", liberal), "");
  assertEquals(await saidOf("--nodeport-addresses=primary", liberal), "");
  const noLocalhost = "--iptables-localhost-nodeports=false";
  assertEquals(await saidOf("--nodeport-addresses=127.0.0.0/8", noLocalhost, liberal), "");
  for (const mode of ["nftables", "iptables"]) {
    assertEquals(await saidOf(`--proxy-mode=${mode}`), "");
  }
});

Deno.test("acceleration that the mode does not have is worth knowing", async () => {
  const configuration = configurationOf(await load(["--acceleration-interfaces=eth0,veth*"]));
  assertEquals(configuration.signpost.acceleration.interfaces, ["eth0", "veth*"]);
  const ids = (mode: Mode) =>
    listOf(checkAcceleration({ ...factsOf([], { mode }), configuration })).map(({ id }) => id);
  assertEquals(ids("iptables"), ["acceleration-unavailable"]);
  assertEquals(ids("nftables"), []);
});

Deno.test("an open mode that became iptables is kube-proxy's", async () => {
  assertEquals(said(configurationOf(await load([])), "iptables"), "");
});

Deno.test("what kubeadm writes leaves the mode open", async () => {
  const text = await Deno.readTextFile(
    new URL("../testdata/parity/newkubeadm.yaml", import.meta.url),
  );
  const { configuration } = runOf(await loadFile(text.replace(/^(?:apiVersion|kind):.*\n/gm, "")));
  assertMatch(said(configuration), /^no mode is set/);
});

Deno.test("iptables mode that is set where nftables works is worth knowing", () => {
  const facts = factsOf([], {
    mode: "iptables",
    configuration: { mode: "iptables" },
    facts: { system: { couldUseNftables: true } },
  });
  assertEquals(listOf(checkMode(facts)).map(({ id, severity, what }) => [id, severity, what]), [
    ["mode-without-need", "info", "mode iptables is set, and nftables works on this node"],
  ]);
});
