/**
 * Settings of the kernel and of this process that kube-proxy makes from its configuration.
 *
 * @module
 */
import { messageOf } from "../model/values/errors.ts";
import { applyConntrackSysctls, conntrackSysctls } from "./sysctls.ts";
import type { SettingFailure } from "../findings/facts.ts";
import type { Configuration } from "../model/configuration.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { Sysctl } from "../backend/sysctl.ts";

/** What the settings are made from. */
export interface KernelSettingsOptions {
  readonly configuration: Configuration;
  readonly runtime: Runtime;
  readonly logger: Logger;
}

/**
 * Makes the settings; what cannot be made never ends the daemon. Called after the first sync.
 *
 * @returns the settings of connection tracking that were not made
 */
export async function applyKernelSettings(
  options: KernelSettingsOptions,
): Promise<readonly SettingFailure[]> {
  const failed = await applyConntrackSettings(options);
  await setOomScore(options);
  return failed;
}

/** Makes the settings of connection tracking alone. */
export async function applyConntrackSettings(
  { configuration, runtime, logger }: KernelSettingsOptions,
): Promise<readonly SettingFailure[]> {
  const sysctls = conntrackSysctls(configuration.conntrack, { cpus: runtime.cpus() });
  return await applyConntrackSysctls(sysctls, { access: new Sysctl(runtime.runner), logger });
}

/** Deno cannot write below `/proc`: `choom` (package util-linux) does it. */
async function setOomScore(
  { configuration, runtime, logger }: KernelSettingsOptions,
): Promise<void> {
  const score = configuration.oomScoreAdj;
  if (score === undefined) return;
  const choom = (...args: string[]) =>
    runtime.runner.run(["choom", ...args, "-p", `${runtime.pid}`]);
  try {
    const { stdout } = await choom();
    // systemd's OOMScoreAdjust= has done it, and may have taken away the right to do it again.
    if (new RegExp(`adjust value: ${score}$`, "m").test(stdout)) return;
    const { code, stderr } = await choom("-n", `${score}`);
    if (code !== 0) throw new Error(stderr.trim());
  } catch (error) {
    logger.warn("the OOM score could not be set; systemd's OOMScoreAdjust= does the same", {
      score,
      error: messageOf(error),
    });
  }
}
