/**
 * Settings that are right one by one and wrong together, as kube-proxy checks them
 * (pkg/proxy/apis/config/validation) and for signpost's own.
 *
 * @module
 */
import type { Configuration, ModeSections } from "../../model/configuration.ts";
import { formatDuration } from "../file/durations.ts";
import { IPVS_SCHEDULERS, isIpvsScheduler } from "../ipvs.ts";
import { NODE_PORT_WORDS } from "../../model/node_port_addresses.ts";
import { show } from "../../model/values/text.ts";
import { isSet, type Origin, placeOf } from "../origin.ts";

/** Names every impossible combination, one line each. */
export function checkCombinations(configuration: Configuration, origin: Origin): string[] {
  const errors = [
    ...checkPeriods(configuration, origin),
    ...checkIpvsScheduler(configuration, origin),
    ...checkDetectLocal(configuration, origin),
    ...checkNodePortWords(origin),
    ...checkCommand(origin),
  ];
  // One flag may set the same thing for both modes.
  return [...new Set(errors)];
}

const MODE_SECTIONS: readonly (keyof ModeSections)[] = ["nftables", "iptables"];

/** A section that has periods. */
type Section = keyof ModeSections | "ipvs";

/** Only the section that is used counts: kube-proxy does not look at the other one either. */
function checkPeriods(configuration: Configuration, origin: Origin): string[] {
  const errors: string[] = [];
  const asked = origin.settings.mode ?? "";
  // A mode without a section of its own takes the periods of another.
  const own = [...MODE_SECTIONS, "ipvs" as const].find((section) => section === asked);
  const sections: readonly Section[] = own ? [own] : MODE_SECTIONS;
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

/** The setting that gives a section its min sync period; `undefined`: none is set, it is adaptive. */
function minSyncPeriodOf(section: Section, origin: Origin) {
  // Where no mode is set, nftables takes the periods of the iptables section over.
  const paths = section === "nftables"
    ? ["nftables.minSyncPeriod", "iptables.minSyncPeriod"] as const
    : [`${section}.minSyncPeriod`] as const;
  return paths.find((path) => isSet(origin, path));
}

/** kube-proxy leaves it to the kernel, and does not start where that refuses. */
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

/** As kube-proxy, which takes a CIDR twice. */
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

function checkCommand({ settings }: Origin): string[] {
  const errors: string[] = [];
  if (settings["command.output"] && !settings["command.once"]) {
    errors.push("--output: only with --once");
  }
  if (settings["signpost.manifests"]?.includes("")) {
    errors.push("--manifests: must be a file, a folder or -, is empty");
  }
  return errors;
}
