/**
 * Checks combinations of settings, as kube-proxy does (pkg/proxy/apis/config/validation), and
 * signpost's own.
 *
 * @module
 */
import type { Configuration } from "../configuration.ts";
import { type Mode, MODES, NODE_PORT_WORDS } from "../../model/configuration.ts";
import { formatDuration } from "../file/durations.ts";
import { IPVS_SCHEDULERS, isIpvsScheduler } from "../ipvs.ts";
import { show } from "../../model/values/text.ts";
import { isSet, type Origin, placeOf } from "../origin.ts";

/** Returns one line for every impossible combination. */
export function checkCombinations(configuration: Configuration, origin: Origin): string[] {
  const errors = [
    ...checkPeriods(configuration, origin),
    ...checkIpvsScheduler(configuration, origin),
    ...checkDetectLocal(configuration, origin),
    ...checkNodePortWords(origin),
    ...checkManifests(origin),
  ];
  // One flag may set both modes.
  return [...new Set(errors)];
}

/** A section with sync periods. */
type Section = Mode | "ipvs";

/** Checks the periods of the section in use. kube-proxy ignores the others too. */
function checkPeriods(configuration: Configuration, origin: Origin): string[] {
  const errors: string[] = [];
  const asked = origin.settings.mode ?? "";
  // A mode without its own section uses the periods of another.
  const own = [...MODES, "ipvs" as const].find((section) => section === asked);
  const sections: readonly Section[] = own ? [own] : MODES;
  for (const section of sections) {
    const { syncPeriod, minSyncPeriod } = configuration[section];
    if (syncPeriod <= 0) {
      errors.push(`${placeOf(origin, `${section}.syncPeriod`)}: must be above 0`);
      continue;
    }
    const set = minSyncPeriodOf(section, origin);
    if (set !== undefined && minSyncPeriod !== "adaptive" && minSyncPeriod > syncPeriod) {
      const [sync, min] = [formatDuration(syncPeriod), formatDuration(minSyncPeriod)];
      errors.push(
        `${placeOf(origin, set)}: must not be longer than the sync period (${sync}), is ${min}`,
      );
    }
  }
  if (configuration.configSyncPeriod <= 0) {
    errors.push(`${placeOf(origin, "configSyncPeriod")}: must be above 0`);
  }
  if (configuration.signpost.fullSyncPeriod <= 0) {
    errors.push(`${placeOf(origin, "signpost.fullSyncPeriod")}: must be above 0`);
  }
  return errors;
}

/** Returns the setting of a section's min sync period, or `undefined` if it is adaptive. */
function minSyncPeriodOf(section: Section, origin: Origin) {
  // Without a mode, nftables uses the periods of the iptables section.
  const paths = section === "nftables"
    ? ["nftables.minSyncPeriod", "iptables.minSyncPeriod"] as const
    : [`${section}.minSyncPeriod`] as const;
  return paths.find((path) => isSet(origin, path));
}

/** Checks the scheduler. kube-proxy fails at its start if the kernel refuses it. */
function checkIpvsScheduler({ ipvs }: Configuration, origin: Origin): string[] {
  const { scheduler } = ipvs;
  if (origin.settings.mode !== "ipvs" || isIpvsScheduler(scheduler)) return [];
  return [
    `${placeOf(origin, "ipvs.scheduler")}: must be one of ${IPVS_SCHEDULERS.join(", ")}, ` +
    `is ${show(scheduler)}`,
  ];
}

function checkDetectLocal(configuration: Configuration, origin: Origin): string[] {
  const { detectLocalMode, detectLocal } = configuration;
  const place = placeOf(origin, "detectLocalMode");
  if (detectLocalMode === "BridgeInterface" && detectLocal.bridgeInterface === "") {
    return [
      `${place}: BridgeInterface needs --pod-bridge-interface or detectLocal.bridgeInterface`,
    ];
  }
  if (detectLocalMode === "InterfaceNamePrefix" && detectLocal.interfaceNamePrefix === "") {
    return [
      `${place}: InterfaceNamePrefix needs --pod-interface-name-prefix or ` +
      `detectLocal.interfaceNamePrefix`,
    ];
  }
  return [];
}

/** Checks for repeated words. As in kube-proxy, a CIDR may be repeated. */
function checkNodePortWords(origin: Origin): string[] {
  const entries = origin.settings.nodePortAddresses ?? [];
  const place = placeOf(origin, "nodePortAddresses");
  const isFlag = origin.setBy.has("nodePortAddresses");
  return entries.flatMap((entry, i) =>
    NODE_PORT_WORDS.includes(entry) && entries.indexOf(entry) < i
      ? [`${place}${isFlag ? "" : `[${i}]`}: Duplicate value: ${show(entry)}`]
      : []
  );
}

function checkManifests({ settings }: Origin): string[] {
  const isEmpty = settings["signpost.manifests"]?.includes("");
  return isEmpty ? ["--manifests: must be a file, a folder or -, is empty"] : [];
}
