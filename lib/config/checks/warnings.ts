/**
 * Warns about valid settings: those without effect, and deprecated flags.
 *
 * @module
 */
import { hasEffect } from "./feature_gates.ts";
import { ipvsWarnings } from "../ipvs.ts";
import { FLAGS } from "../flags.ts";
import { type Origin, placeOf } from "../origin.ts";
import { type SettingPath, SETTINGS } from "../settings/table.ts";

/**
 * Returns the warnings of a valid configuration.
 *
 * @param inputs `origin`: the settings and their places; `given`: all flags of the command line, as
 * `--name`
 * @returns one line each; all settings without effect share one
 */
export function warningsOf(
  { origin, given }: { readonly origin: Origin; readonly given: readonly string[] },
): string[] {
  const warnings = ipvsWarnings(origin);
  const unused = withoutEffect(origin, given);
  if (unused.length > 0) {
    warnings.push(`without effect in signpost: ${unused.join(", ")}`);
  }
  for (const name of ["healthz", "metrics"]) {
    if (!given.includes(`--${name}-port`)) continue;
    warnings.push(`--${name}-port: deprecated, use --${name}-bind-address`);
  }
  const localhost = "iptables.localhostNodePorts";
  if (origin.settings.mode === "nftables" && origin.settings[localhost]) {
    warnings.push(
      `${placeOf(origin, localhost)}: without effect in nftables mode; add localhost to ` +
        "nodePortAddresses to have node ports on loopback",
    );
  }
  return warnings;
}

function withoutEffect(origin: Origin, given: readonly string[]): string[] {
  const unused = (Object.keys(SETTINGS) as SettingPath[])
    .filter((path) =>
      isUnused(path, origin) && isChosen(origin.settings[path], SETTINGS[path].default)
    )
    .map((path) => placeOf(origin, path));
  const gates = Object.keys(origin.settings.featureGates ?? {})
    .filter((name) => !hasEffect(name))
    .map((name) => `${placeOf(origin, "featureGates")}.${name}`);
  const unset = FLAGS.filter(({ sets, help }) => sets.length === 0 && help === "No effect.")
    .map(({ name }) => `--${name}`)
    .filter((name) => given.includes(name));
  return [...unused, ...gates, ...unset];
}

function isUnused(path: SettingPath, { settings }: Origin): boolean {
  const { unused } = SETTINGS[path];
  return unused === "outside ipvs mode" ? settings.mode !== "ipvs" : unused === true;
}

/** Returns true if a value differs from kube-proxy's default. Empty and zero values do not count. */
function isChosen(value: unknown, fallback: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : Boolean(value) && value !== fallback;
}
