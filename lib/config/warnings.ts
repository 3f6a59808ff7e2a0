/**
 * What is accepted and should still be known: settings without an effect, flags on their way out.
 *
 * @module
 */
import type { Configuration } from "../model/configuration.ts";
import { GATE_WITH_EFFECT } from "./feature_gates.ts";
import { FLAGS } from "./flags/table.ts";
import { valueAt } from "./issues.ts";
import { type Origin, placeOf } from "./origin.ts";

/** Settings that signpost does not have, and the values that mean kube-proxy's default. */
const WITHOUT_EFFECT: ReadonlyMap<string, readonly unknown[]> = new Map([
  ["clientConnection.qps", [0, 5]],
  ["clientConnection.burst", [0, 10]],
  ["logging.flushFrequency", [0, 5_000]],
  ["logging.options.text.splitStream", [false]],
  ["logging.options.text.infoBufferSize", ["", "0"]],
  ["logging.options.json.splitStream", [false]],
  ["logging.options.json.infoBufferSize", ["", "0"]],
  ["enableProfiling", [false]],
  ["showHiddenMetricsForVersion", [""]],
  ["ipvs.syncPeriod", [0, 30_000]],
  ["ipvs.minSyncPeriod", [0, 1_000]],
  ["ipvs.scheduler", [""]],
  ["ipvs.strictARP", [false]],
  ["ipvs.tcpTimeout", [0]],
  ["ipvs.tcpFinTimeout", [0]],
  ["ipvs.udpTimeout", [0]],
  ["winkernel.networkName", [""]],
  ["winkernel.sourceVip", [""]],
  ["winkernel.enableDSR", [false]],
  ["winkernel.rootHnsEndpointName", [""]],
  ["winkernel.forwardHealthCheckVip", [false]],
  ["portRange", ["", "0", "0-0"]],
  ["windowsRunAsService", [false]],
]);

/** Lists without an effect; empty is the default. */
const LISTS_WITHOUT_EFFECT = ["logging.vmodule", "ipvs.excludeCIDRs"];

/**
 * Names what a person should know though nothing is wrong.
 *
 * @param configuration what will be used
 * @param origin where it comes from
 * @param given all flags of the command line, as `--name`
 * @returns one line each; everything without an effect in a single one
 */
export function warningsOf(
  configuration: Configuration,
  { origin, given }: { readonly origin: Origin; readonly given: readonly string[] },
): string[] {
  const warnings: string[] = [];
  const ignored = withoutEffect(origin, given);
  if (ignored.length > 0) {
    warnings.push(`without effect in signpost, ignored: ${ignored.join(", ")}`);
  }
  for (const name of ["healthz", "metrics"]) {
    if (!given.includes(`--${name}-port`)) continue;
    warnings.push(`--${name}-port: deprecated, use --${name}-bind-address`);
  }
  const localhost = "iptables.localhostNodePorts";
  if (configuration.mode === "nftables" && origin.settings.iptables?.localhostNodePorts) {
    warnings.push(
      `${placeOf(origin, localhost)}: node ports do not answer on localhost in nftables mode`,
    );
  }
  return warnings;
}

function withoutEffect(origin: Origin, given: readonly string[]): string[] {
  const paths: string[] = [];
  for (const [path, defaults] of WITHOUT_EFFECT) {
    const value = valueAt(origin.settings, path.split("."));
    if (value !== undefined && !defaults.includes(value)) paths.push(path);
  }
  for (const path of LISTS_WITHOUT_EFFECT) {
    const value = valueAt(origin.settings, path.split("."));
    if (Array.isArray(value) && value.length > 0) paths.push(path);
  }
  const gates = Object.keys(origin.settings.featureGates ?? {})
    .filter((name) => name !== GATE_WITH_EFFECT)
    .map((name) => `${placeOf(origin, "featureGates")}.${name}`);
  const unset = FLAGS.filter(({ sets, help }) => sets.length === 0 && help === "No effect.")
    .map(({ name }) => `--${name}`)
    .filter((name) => given.includes(name));
  return [...paths.map((path) => placeOf(origin, path)), ...gates, ...unset];
}
