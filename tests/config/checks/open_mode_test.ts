import { assertEquals, assertMatch } from "@std/assert";
import { openModeWarning } from "../../../lib/config/checks/open_mode.ts";
import { configurationOf, load, loadFile, runOf } from "../support.ts";

async function warning(...argv: readonly string[]): Promise<string> {
  return openModeWarning(configurationOf(await load(argv))) ?? "";
}

Deno.test("without a mode, one warning says how node ports differ and what restores them", async () => {
  assertMatch(
    await warning(),
    /primary addresses only, never on 127\.0\.0\.1; set nodePortAddresses to all .* mode to iptables/,
  );
  assertMatch(
    await warning("--nodeport-addresses=127.0.0.0/8,10.0.0.0/8"),
    /node ports never answer on 127\.0\.0\.1; set mode to iptables/,
  );
  for (const addresses of ["0.0.0.0/0", "all", "primary,localhost"]) {
    assertMatch(await warning(`--nodeport-addresses=${addresses}`), /never answer on 127/);
  }
});

Deno.test("where node ports are the same, or a mode is set, there is no warning", async () => {
  assertEquals(await warning("--nodeport-addresses=10.0.0.0/8"), "");
  assertEquals(await warning("--nodeport-addresses=primary"), "");
  assertEquals(
    await warning("--nodeport-addresses=127.0.0.0/8", "--iptables-localhost-nodeports=false"),
    "",
  );
  for (const mode of ["nftables", "iptables"]) {
    assertEquals(await warning(`--proxy-mode=${mode}`), "");
  }
});

Deno.test("what kubeadm writes is told", async () => {
  const text = await Deno.readTextFile(
    new URL("../../testdata/parity/newkubeadm.yaml", import.meta.url),
  );
  const { configuration } = runOf(await loadFile(text.replace(/^(?:apiVersion|kind):.*\n/gm, "")));
  assertMatch(openModeWarning(configuration) ?? "", /^no mode is set/);
});
