import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  applyConntrackSettings,
  applyKernelSettings,
  conntrackSysctls,
} from "../../lib/conntrack/kernel_settings.ts";
import type { ProcessResult } from "../../lib/model/ports/ports.ts";
import { world } from "../cli/runtime.ts";
import { configuration, DEFAULTS } from "../support/configuration.ts";
import { MemoryLogger } from "../support/clock_and_log.ts";

const P = "net.netfilter.nf_conntrack_";
const NOTHING = DEFAULTS.conntrack;
/** kube-proxy's own defaults. */
const KUBE_PROXY = {
  ...NOTHING,
  maxPerCore: 32_768,
  min: 131_072,
  tcpEstablishedTimeout: 86_400_000,
  tcpCloseWaitTimeout: 3_600_000,
};

Deno.test("kube-proxy's defaults on a large machine and on a small one", () => {
  const timeouts = [
    { name: `${P}tcp_timeout_established`, value: 86_400, rule: "exactly" as const },
    { name: `${P}tcp_timeout_close_wait`, value: 3_600, rule: "exactly" as const },
  ];
  const limits = (max: number) => [
    { name: `${P}max`, value: max, rule: "at least" as const },
    { name: `${P}buckets`, value: max / 4, rule: "at least" as const },
  ];
  assertEquals(conntrackSysctls(KUBE_PROXY, 8), [...limits(262_144), ...timeouts]);
  assertEquals(conntrackSysctls(KUBE_PROXY, 2), [...limits(131_072), ...timeouts]);
});

Deno.test("settings of 0 or false are left unchanged", () => {
  assertEquals(conntrackSysctls(NOTHING, 8), []);
  assertEquals(conntrackSysctls({ ...NOTHING, min: 131_072 }, 8), []);
});

Deno.test("a timeout below a second is one second", () => {
  const settings = { ...NOTHING, tcpBeLiberal: true, udpTimeout: 30_500, udpStreamTimeout: 300 };
  assertEquals(conntrackSysctls(settings, 1), [
    { name: `${P}tcp_be_liberal`, value: 1, rule: "exactly" },
    { name: `${P}udp_timeout`, value: 30, rule: "exactly" },
    { name: `${P}udp_timeout_stream`, value: 1, rule: "exactly" },
  ]);
});

Deno.test("the time after a FIN, which mode ipvs takes from ipvs.tcpFinTimeout", () => {
  assertEquals(conntrackSysctls({ ...NOTHING, tcpFinWaitTimeout: 40_000 }, 1), [
    { name: `${P}tcp_timeout_fin_wait`, value: 40, rule: "exactly" },
  ]);
});

function failed(stderr: string): Promise<ProcessResult> {
  return Promise.resolve({ code: 1, stdout: "", stderr });
}

/** Settings in memory. */
function fakeSysctls(values: Record<string, string>, readOnly: readonly string[] = []) {
  const writes: string[] = [];
  return {
    writes,
    runner: {
      run: ([, option, ...args]: readonly string[]): Promise<ProcessResult> => {
        const setting = args.at(-1) ?? "";
        const [name = ""] = setting.split("=");
        const value = option === "-n" ? values[name] : "";
        if (value === undefined) return failed(`cannot stat ${name}\n`);
        if (option === "-q" && readOnly.includes(name)) return failed("Read-only file system\n");
        if (option === "-q") writes.push(setting);
        return Promise.resolve({ code: 0, stdout: value, stderr: "" });
      },
    },
  };
}

/** Applies a limit of 100 entries and a timeout of 10 s, and what else is asked for. */
function apply(
  { runner }: Pick<ReturnType<typeof fakeSysctls>, "runner">,
  logger: MemoryLogger,
  more: Partial<typeof NOTHING> = {},
): ReturnType<typeof applyConntrackSettings> {
  const conntrack = { ...NOTHING, maxPerCore: 100, tcpEstablishedTimeout: 10_000, ...more };
  return applyConntrackSettings({
    configuration: { conntrack },
    runtime: { cpus: () => 1, runner },
    logger,
  });
}

const TIMEOUT = `${P}tcp_timeout_established`;

Deno.test("a limit is raised, never lowered", async () => {
  const logger = new MemoryLogger();
  const written = async (max: string, timeout: string) => {
    const sysctls = fakeSysctls({ [`${P}max`]: max, [`${P}buckets`]: "25", [TIMEOUT]: timeout });
    assertEquals(await apply(sysctls, logger), []);
    return sysctls.writes;
  };
  const [limit, timeout] = [`${P}max=100`, `${TIMEOUT}=10`];
  assertEquals(await written("99\n", "11\n"), [limit, timeout]);
  assertEquals(await written("101\n", "9\n"), [timeout]);
  assertEquals(await written("100\n", "10\n"), []);
  assertEquals(await written("garbage", ""), [limit, timeout]);
  assertEquals(logger.warnings, []);
});

Deno.test("settings that cannot be set are returned", async () => {
  const logger = new MemoryLogger();
  const last = `${P}udp_timeout`;
  const sysctls = fakeSysctls({ [`${P}max`]: "1", [`${P}buckets`]: "25", [last]: "1" }, [
    `${P}max`,
  ]);
  assertEquals(await apply(sysctls, logger, { udpTimeout: 2_000 }), [
    { name: `${P}max`, value: 100, reason: "Read-only file system" },
    { name: TIMEOUT, value: 10, reason: `cannot stat ${TIMEOUT}` },
  ]);
  assertEquals([sysctls.writes, logger.warnings], [[`${last}=2`], []]);
});

/** `net.netfilter.nf_conntrack_max` for kube-proxy's two settings; 0: it is left as it is. */
function conntrackMax(settings: { maxPerCore: number; min: number }, cpus: number): number {
  const sysctls = conntrackSysctls({ ...NOTHING, ...settings }, cpus);
  return sysctls.find(({ name }) => name === `${P}max`)?.value ?? 0;
}

Deno.test("TestGetConntrackMax", () => {
  for (const cpus of [1, 2, 16, 64]) {
    assertEquals(conntrackMax({ maxPerCore: 0, min: 0 }, cpus), 0);
    const scaled = Math.min(67_890 * cpus, 1_048_576);
    assertEquals(conntrackMax({ maxPerCore: 67_890, min: 1 }, cpus), scaled);
    assertEquals(conntrackMax({ maxPerCore: 1, min: 123_456 }, cpus), 123_456);
    assertEquals(conntrackMax({ maxPerCore: 0, min: 123_456 }, cpus), 0);
  }
});

Deno.test("TestGetConntrackMax_Capped", () => {
  assertEquals(conntrackMax({ maxPerCore: 32_768, min: 0 }, 512), 1_048_576);
  assertEquals(conntrackMax({ maxPerCore: 32_768, min: 2_000_000 }, 512), 2_000_000);
});

Deno.test("the OOM score that cannot be set has a remedy by where signpost runs", async () => {
  for (
    const [host, remedy] of [
      [undefined, "systemd's OOMScoreAdjust= does the same"],
      ["10.96.0.1", "the container needs the capability SYS_RESOURCE"],
    ] as const
  ) {
    const logger = new MemoryLogger();
    const denied = { code: 1, stdout: "", stderr: "Permission denied" };
    const { runtime } = world({
      runner: { run: () => Promise.resolve(denied) },
      environment: (name) => name === "KUBERNETES_SERVICE_HOST" ? host : undefined,
    });
    await applyKernelSettings({
      configuration: configuration({ oomScoreAdj: -999 }),
      runtime,
      logger,
    });
    assertEquals(logger.at("warn").length, 1);
    assertStringIncludes(logger.at("warn")[0] ?? "", `the OOM score could not be set; ${remedy}`);
  }
});
