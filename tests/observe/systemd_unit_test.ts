import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { NFTABLES_MODULES } from "../../lib/backend/nftables/probe.ts";
import { bootSystemd, canRunSystemd, waitFor } from "./support/private_systemd.ts";

const UNIT = new URL("../../systemd/signpost.service", import.meta.url);
const CHECKOUT = new URL("../../", import.meta.url).pathname;

/** Puts the probe daemon in signpost's place; what the unit says of the sandbox stays. */
const probeDropIn = (v8Flags: string) => `
[Service]
Environment=DENO_DIR=/var/lib/signpost/deno NO_COLOR=1
ExecStart=
ExecStart=/opt/deno run ${v8Flags} --no-config --no-lock --unstable-net -A /opt/checkout/tests/observe/support/probe_daemon.ts
WatchdogSec=2s
RestartSec=3s
StandardError=append:/opt/log
`;

async function analyze(...args: string[]): Promise<{ code: number; text: string }> {
  const output = await new Deno.Command("systemd-analyze", { args }).output();
  const decoder = new TextDecoder();
  return { code: output.code, text: decoder.decode(output.stdout) + decoder.decode(output.stderr) };
}

Deno.test("systemd-analyze verify finds no fault with the unit", async () => {
  const folder = await Deno.makeTempDir();
  try {
    // The program need not be installed where the tests run.
    const unit = (await Deno.readTextFile(UNIT)).replaceAll("/usr/local/bin/signpost", "/bin/true");
    await Deno.writeTextFile(`${folder}/signpost.service`, unit);
    assertEquals(await analyze("verify", "--man=no", `${folder}/signpost.service`), {
      code: 0,
      text: "",
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("systemd-analyze verify finds no fault with the jitless drop-in", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const unit = (await Deno.readTextFile(UNIT)).replaceAll("/usr/local/bin/signpost", "/bin/true");
    assertEquals(/^MemoryDenyWriteExecute/m.test(unit), false, "V8 makes code at run time");
    const dropIn = await Deno.readTextFile(new URL("signpost-jitless.conf", UNIT));
    assertStringIncludes(dropIn, "\n[Service]\nMemoryDenyWriteExecute=yes\n");
    await Deno.mkdir(`${folder}/signpost.service.d`);
    await Deno.writeTextFile(`${folder}/signpost.service`, unit);
    await Deno.writeTextFile(`${folder}/signpost.service.d/jitless.conf`, dropIn);
    assertEquals(await analyze("verify", "--man=no", `${folder}/signpost.service`), {
      code: 0,
      text: "",
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("systemd-analyze security rates the unit's exposure below 3", async () => {
  // The threshold is in tenths; a higher exposure fails.
  const { code, text } = await analyze(
    "security",
    "--offline=true",
    "--no-pager",
    "--threshold=29",
    UNIT.pathname,
  );
  assertEquals(code, 0, text);
  assertStringIncludes(text, "Overall exposure level");
});

Deno.test({
  name: "the unit starts, reloads, is killed when stuck, stops under systemd",
  ignore: !await canRunSystemd(),
  fn: async () => {
    await using systemd = await bootSystemd(CHECKOUT);
    const show = (...names: string[]) => systemd.show("signpost.service", ...names);
    await installUnit(systemd.run);

    await systemd.run("systemctl", "start", "signpost.service").catch(async (error: Error) => {
      throw new Error(await systemd.run("cat", "/opt/log"), { cause: error });
    });
    assertEquals(await show("ActiveState", "StatusText", "OOMScoreAdjust"), {
      ActiveState: "active",
      StatusText: "in service",
      OOMScoreAdjust: "-999",
    });
    await assertConfined(await systemd.run("cat", "/var/lib/signpost/probe.json"));

    await systemd.run("systemctl", "reload", "signpost.service");
    await waitFor("the reload", async () => (await show("StatusText")).StatusText === "reloaded 1");
    assertEquals(await show("ActiveState", "NRestarts"), { ActiveState: "active", NRestarts: "0" });

    await systemd.run("systemctl", "kill", "-s", "USR1", "--kill-who=main", "signpost.service");
    await waitFor("the watchdog", async () => (await show("Result")).Result === "watchdog");
    await waitFor("the restart", async () => {
      const { ActiveState, NRestarts } = await show("ActiveState", "NRestarts");
      return ActiveState === "active" && NRestarts === "1";
    });

    await systemd.run("systemctl", "stop", "signpost.service");
    assertEquals(await show("ActiveState", "Result"), {
      ActiveState: "inactive",
      Result: "success",
    });
    assertStringIncludes(await systemd.run("nft", "list", "tables"), "signpost-probe");
    // A pod of signpost that waits for the unit's end has it mounted.
    assertEquals(await systemd.run("ls", "-d", "/run/signpost"), "/run/signpost\n");
  },
});

Deno.test({
  name: "a jitless daemon starts under systemd with its drop-in",
  ignore: !await canRunSystemd(),
  fn: async () => {
    await using systemd = await bootSystemd(CHECKOUT);
    const state = async () => {
      await systemd.run("systemctl", "restart", "signpost.service").catch(() => {});
      return (await systemd.show("signpost.service", "ActiveState"))["ActiveState"];
    };
    await installUnit(systemd.run, { v8Flags: "--v8-flags=--jitless", isHardened: true });
    assertEquals(await state(), "active");
    assertEquals(await systemd.show("signpost.service", "MemoryDenyWriteExecute"), {
      MemoryDenyWriteExecute: "yes",
    });
    await installUnit(systemd.run, { v8Flags: "", isHardened: true });
    assertEquals(await state() === "active", false);
  },
});

async function installUnit(
  run: (program: string, ...parameters: string[]) => Promise<string>,
  { v8Flags = "", isHardened = false } = {},
): Promise<void> {
  const script = `
    set -e
    cp /opt/checkout/systemd/signpost.service /etc/systemd/system/
    mkdir -p /etc/systemd/system/signpost.service.d
    printf %s "$1" > /etc/systemd/system/signpost.service.d/test.conf
    test -z "$2" || cp /opt/checkout/systemd/signpost-jitless.conf /etc/systemd/system/signpost.service.d/
    systemctl daemon-reload`;
  await run("sh", "-c", script, "sh", probeDropIn(v8Flags), isHardened ? "hardened" : "");
}

/** @param report what the probe daemon wrote */
function assertConfined(report: string): void {
  const { childEnvironment, ...probes } = JSON.parse(report);
  assertEquals(probes, {
    nft: "",
    legacy: "",
    http: "done",
    sysctl: "done",
    otherSysctl: "EROFS",
    optional: "EROFS",
    run: "done",
    units: "EROFS",
  });
  assert(!/NOTIFY_SOCKET|WATCHDOG/.test(childEnvironment), childEnvironment);
}

Deno.test("signpost-modules.conf names the modules that messages of nftables mode name", async () => {
  const file = await Deno.readTextFile(
    new URL("../../systemd/signpost-modules.conf", import.meta.url),
  );
  const lines = file.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  assertEquals(lines, NFTABLES_MODULES);
});
