import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { NFTABLES_MODULES } from "../../lib/backend/nftables/probe.ts";
import { type CommandResult, execute, run } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { makeFolder } from "../support/folder.ts";
import { bootSystemd, canRunSystemd, type PrivateSystemd } from "./support/private_systemd.ts";

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

/** Verifies the unit beside a drop-in. */
async function verify(dropIn: string): Promise<CommandResult> {
  await using folder = await makeFolder("unit");
  const unit = `${folder.path}/signpost.service`;
  await Deno.mkdir(`${unit}.d`);
  // The program need not be installed where the tests run.
  const text = (await Deno.readTextFile(UNIT)).replaceAll("/usr/local/bin/signpost", "/bin/true");
  await Deno.writeTextFile(unit, text);
  await Deno.writeTextFile(`${unit}.d/jitless.conf`, dropIn);
  return await execute(["systemd-analyze", "verify", "--man=no", unit]);
}

const NO_FAULT = { code: 0, stdout: "", stderr: "" };

Deno.test("systemd-analyze verify finds no fault with the unit", async () => {
  assertEquals(await verify(""), NO_FAULT);
});

Deno.test("systemd-analyze verify finds no fault with the jitless drop-in", async () => {
  const unit = await Deno.readTextFile(UNIT);
  assertEquals(/^MemoryDenyWriteExecute/m.test(unit), false, "V8 makes code at run time");
  const dropIn = await Deno.readTextFile(new URL("signpost-jitless.conf", UNIT));
  assertStringIncludes(dropIn, "\n[Service]\nMemoryDenyWriteExecute=yes\n");
  assertEquals(await verify(dropIn), NO_FAULT);
});

Deno.test("systemd-analyze security rates the unit's exposure below 3", async () => {
  // The threshold is in tenths; a higher exposure fails.
  const flags = ["--offline=true", "--no-pager", "--threshold=29"];
  const rating = await run(["systemd-analyze", "security", ...flags, UNIT.pathname]);
  assertStringIncludes(rating, "Overall exposure level");
});

Deno.test({
  name: "the unit starts, reloads, is killed when stuck, stops under systemd",
  ignore: !await canRunSystemd(),
  fn: async () => {
    await using systemd = await bootSystemd(CHECKOUT);
    const show = (...names: string[]) => systemd.show("signpost.service", ...names);
    await installUnit(systemd);

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
    await eventually(
      "the reload",
      async () => (await show("StatusText")).StatusText === "reloaded 1",
    );
    assertEquals(await show("ActiveState", "NRestarts"), { ActiveState: "active", NRestarts: "0" });

    await systemd.run("systemctl", "kill", "-s", "USR1", "--kill-who=main", "signpost.service");
    await eventually("the watchdog", async () => (await show("Result")).Result === "watchdog");
    await eventually("the restart", async () => {
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
    await installUnit(systemd, { v8Flags: "--v8-flags=--jitless", isHardened: true });
    assertEquals(await state(), "active");
    assertEquals(await systemd.show("signpost.service", "MemoryDenyWriteExecute"), {
      MemoryDenyWriteExecute: "yes",
    });
    await installUnit(systemd, { v8Flags: "", isHardened: true });
    assertEquals(await state() === "active", false);
  },
});

async function installUnit(
  systemd: PrivateSystemd,
  { v8Flags = "", isHardened = false } = {},
): Promise<void> {
  const script = `
    set -e
    cp /opt/checkout/systemd/signpost.service /etc/systemd/system/
    mkdir -p /etc/systemd/system/signpost.service.d
    printf %s "$1" > /etc/systemd/system/signpost.service.d/test.conf
    test -z "$2" || cp /opt/checkout/systemd/signpost-jitless.conf /etc/systemd/system/signpost.service.d/
    systemctl daemon-reload`;
  await systemd.run("sh", "-c", script, "sh", probeDropIn(v8Flags), isHardened ? "hardened" : "");
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
