/** Applies kube-proxy's settings of the kernel and of this process (`pkg/proxy/conntrack/sysctls.go`). */
import { messageOf } from "../model/values/errors.ts";
import type { SettingFailure } from "../findings/facts.ts";
import type { Configuration } from "../config/configuration.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { readSysctl, writeSysctl } from "../backend/sysctl.ts";
import { oneLine } from "../model/values/text.ts";

export interface KernelSettingsOptions {
  readonly configuration: Configuration;
  readonly runtime: Runtime;
  readonly logger: Logger;
}

/** Applies all settings after the first sync. @returns the settings of connection tracking that failed */
export async function applyKernelSettings(
  options: KernelSettingsOptions,
): Promise<readonly SettingFailure[]> {
  const failed = await applyConntrackSettings(options);
  await setOomScore(options);
  return failed;
}

/** Writes the settings that differ. Limits are read-only in a network namespace. @returns the failures */
export async function applyConntrackSettings(
  { configuration, runtime, logger }: {
    readonly configuration: Pick<Configuration, "conntrack">;
    readonly runtime: Pick<Runtime, "cpus" | "runner">;
    readonly logger: Logger;
  },
): Promise<readonly SettingFailure[]> {
  const { runner } = runtime;
  const failed: SettingFailure[] = [];
  for (const { name, value, rule } of conntrackSysctls(configuration.conntrack, runtime.cpus())) {
    try {
      const current = Number(await readSysctl(runner, name));
      if (current === value || rule === "at least" && current > value) continue;
      await writeSysctl(runner, { name, value });
      logger.info("kernel setting changed", { name, value });
    } catch (error) {
      failed.push({ name, value, reason: oneLine(messageOf(error), 200) });
    }
  }
  return failed;
}

/** Sets the OOM score by `choom` (package util-linux), because Deno cannot write below `/proc`. Never rejects. */
async function setOomScore(
  { configuration, runtime, logger }: KernelSettingsOptions,
): Promise<void> {
  const score = configuration.oomScoreAdj;
  const choom = (...args: string[]) =>
    runtime.runner.run(["choom", ...args, "-p", `${runtime.pid}`]);
  try {
    const { stdout } = await choom();
    // systemd's OOMScoreAdjust= has set it already, and may have removed the permission to set it.
    if (new RegExp(`adjust value: ${score}$`, "m").test(stdout)) return;
    const { code, stderr } = await choom("-n", `${score}`);
    if (code !== 0) throw new Error(stderr.trim());
  } catch (error) {
    const isInPod = runtime.environment("KUBERNETES_SERVICE_HOST") !== undefined;
    const remedy = isInPod
      ? "the container needs the capability SYS_RESOURCE"
      : "systemd's OOMScoreAdjust= does the same";
    logger.warn(`the OOM score could not be set; ${remedy}`, {
      score,
      error: messageOf(error),
    });
  }
}

interface ConntrackSysctl {
  /** The name for sysctl(8). */
  readonly name: string;
  /** Entries, buckets, seconds, or 1 for on. */
  readonly value: number;
  /** `at least`: a higher value that the administrator has set stays. */
  readonly rule: "at least" | "exactly";
}

const PREFIX = "net.netfilter.nf_conntrack_";

/** The entries in a bucket of the full hash table, as in kube-proxy. */
const ENTRIES_PER_BUCKET = 4;

/** The limit of entries by the number of processors, as in kube-proxy 1.37. Only `min` raises it. */
const MAX_SCALED = 1_048_576;

/** Returns the settings that are not 0. `nf_conntrack_buckets` is the module parameter `hashsize`. */
export function conntrackSysctls(
  conntrack: Configuration["conntrack"],
  cpus: number,
): ConntrackSysctl[] {
  const { maxPerCore, min, tcpBeLiberal } = conntrack;
  const max = maxPerCore > 0 ? Math.max(Math.min(maxPerCore * cpus, MAX_SCALED), min) : 0;
  const settings: readonly (readonly [string, number, ConntrackSysctl["rule"]])[] = [
    ["max", max, "at least"],
    ["buckets", Math.floor(max / ENTRIES_PER_BUCKET), "at least"],
    ["tcp_timeout_established", seconds(conntrack.tcpEstablishedTimeout), "exactly"],
    ["tcp_timeout_close_wait", seconds(conntrack.tcpCloseWaitTimeout), "exactly"],
    ["tcp_timeout_fin_wait", seconds(conntrack.tcpFinWaitTimeout), "exactly"],
    ["tcp_be_liberal", tcpBeLiberal ? 1 : 0, "exactly"],
    ["udp_timeout", seconds(conntrack.udpTimeout), "exactly"],
    ["udp_timeout_stream", seconds(conntrack.udpStreamTimeout), "exactly"],
  ];
  return settings.filter(([, value]) => value > 0)
    .map(([name, value, rule]) => ({ name: PREFIX + name, value, rule }));
}

/** Rounds down to seconds, the kernel's unit. A time below one second becomes one second. */
function seconds(milliseconds: number): number {
  return milliseconds > 0 ? Math.max(1, Math.floor(milliseconds / 1000)) : 0;
}
