/**
 * Puts file, flags and defaults together: flags win over the file, the file over defaults.
 *
 * Defaults are kube-proxy 1.36's (pkg/proxy/apis/config/v1alpha1/defaults.go), but for the mode.
 *
 * @module
 */
import { type Family, familyOf, parseAddress } from "../model/address.ts";
import {
  type Configuration,
  type ModeConfiguration,
  PROTOBUF,
  type SignpostConfiguration,
} from "../model/configuration.ts";
import { hostPort } from "../model/names.ts";
import type { FileSettings, FlagSettings } from "./schema.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** The port of `/healthz`. */
const HEALTHZ_PORT = 10256;
/** The port of `/metrics`. */
const METRICS_PORT = 10249;

/** The settings of file and flags in one; flags win. */
export function mergeSettings(file: FileSettings, flags: FlagSettings): FlagSettings {
  return {
    ...file,
    ...flags,
    featureGates: { ...file.featureGates, ...flags.featureGates },
    clientConnection: { ...file.clientConnection, ...flags.clientConnection },
    logging: {
      ...file.logging,
      ...flags.logging,
      options: { ...file.logging?.options, ...flags.logging?.options },
    },
    iptables: { ...file.iptables, ...flags.iptables },
    ipvs: { ...file.ipvs, ...flags.ipvs },
    nftables: { ...file.nftables, ...flags.nftables },
    detectLocal: { ...file.detectLocal, ...flags.detectLocal },
    conntrack: { ...file.conntrack, ...flags.conntrack },
  };
}

/** Fills in what is not set. */
export function completeSettings(settings: FlagSettings): Configuration {
  const bindAddress = settings.bindAddress || "0.0.0.0";
  const clusterCIDRs = settings.clusterCIDR ?? [];
  return {
    bindAddress,
    bindAddressHardFail: settings.bindAddressHardFail ?? false,
    ...completeServers(settings, familyOf(bindAddress)),
    clientConnection: {
      kubeconfig: settings.clientConnection?.kubeconfig ?? "",
      acceptContentTypes: settings.clientConnection?.acceptContentTypes ?? "",
      contentType: settings.clientConnection?.contentType || PROTOBUF,
    },
    master: settings.master ?? "",
    mode: settings.mode ?? "",
    clusterCIDRs,
    detectLocalMode: settings.detectLocalMode || "ClusterCIDR",
    detectLocal: {
      bridgeInterface: settings.detectLocal?.bridgeInterface ?? "",
      interfaceNamePrefix: settings.detectLocal?.interfaceNamePrefix ?? "",
      clusterCIDRs,
    },
    hostnameOverride: settings.hostnameOverride ?? "",
    nodePortAddresses: [...new Set(settings.nodePortAddresses)],
    oomScoreAdj: settings.oomScoreAdj ?? -999,
    nftables: completeMode(nftablesSettings(settings)),
    iptables: {
      ...completeMode(settings.iptables ?? {}),
      localhostNodePorts: settings.iptables?.localhostNodePorts ?? true,
    },
    conntrack: completeConntrack(settings.conntrack ?? {}),
    configSyncPeriod: settings.configSyncPeriod ?? 15 * MINUTE,
    featureGates: settings.featureGates ?? {},
    verbosity: settings.logging?.verbosity ?? 0,
    logFormat: settings.logging?.format || "text",
    signpost: completeSignpost(settings.signpost ?? {}),
  };
}

type ModeSettings = { readonly [K in keyof ModeConfiguration]?: ModeConfiguration[K] | undefined };

/**
 * The settings of nftables mode.
 *
 * kube-proxy's mode is iptables where none is set. A file for it says what it wants in the
 * iptables section, and that is to hold when signpost chooses nftables there.
 */
function nftablesSettings({ mode, iptables, nftables }: FlagSettings): ModeSettings {
  if (mode === "nftables" || mode === "iptables") return nftables ?? {};
  return {
    masqueradeAll: nftables?.masqueradeAll || iptables?.masqueradeAll,
    masqueradeBit: nftables?.masqueradeBit ?? iptables?.masqueradeBit,
    syncPeriod: nftables?.syncPeriod ?? iptables?.syncPeriod,
    minSyncPeriod: nftables?.minSyncPeriod ?? iptables?.minSyncPeriod,
  };
}

function completeMode(settings: ModeSettings): ModeConfiguration {
  return {
    masqueradeAll: settings.masqueradeAll ?? false,
    masqueradeBit: settings.masqueradeBit ?? 14,
    syncPeriod: settings.syncPeriod ?? 30 * SECOND,
    minSyncPeriod: settings.minSyncPeriod ?? SECOND,
  };
}

function completeConntrack(
  settings: NonNullable<FlagSettings["conntrack"]>,
): Configuration["conntrack"] {
  return {
    maxPerCore: settings.maxPerCore ?? 32 * 1024,
    min: settings.min ?? 128 * 1024,
    tcpEstablishedTimeout: settings.tcpEstablishedTimeout ?? 24 * HOUR,
    tcpCloseWaitTimeout: settings.tcpCloseWaitTimeout ?? HOUR,
    tcpBeLiberal: settings.tcpBeLiberal ?? false,
    udpTimeout: settings.udpTimeout ?? 0,
    udpStreamTimeout: settings.udpStreamTimeout ?? 0,
  };
}

function completeSignpost(
  settings: NonNullable<FlagSettings["signpost"]>,
): SignpostConfiguration {
  return {
    manifests: settings.manifests ?? [],
    fullSyncPeriod: settings.fullSyncPeriod ?? HOUR,
    stateFile: settings.stateFile ?? "/var/lib/signpost/state.json.gz",
    socket: settings.socket ?? "/run/signpost/signpost.sock",
    statusPage: settings.statusPage || "auto",
  };
}

/** Where the servers listen; by default on an address of the bind address's family. */
function completeServers(
  settings: FlagSettings,
  family: Family,
): Pick<Configuration, "healthzBindAddress" | "metricsBindAddress"> {
  return {
    healthzBindAddress: serverAddress(settings.healthzBindAddress, {
      host: family === 4 ? "0.0.0.0" : "::",
      port: settings.healthzPort ?? HEALTHZ_PORT,
    }),
    metricsBindAddress: serverAddress(settings.metricsBindAddress, {
      host: family === 4 ? "127.0.0.1" : "::1",
      port: settings.metricsPort ?? METRICS_PORT,
    }),
  };
}

/** Port 0 comes from the deprecated port flags and means no server. */
function serverAddress(
  setting: string | undefined,
  { host, port }: { readonly host: string; readonly port: number },
): string {
  if (setting === "" || port === 0) return "";
  if (setting === undefined) return hostPort(host, port);
  return parseAddress(setting) === undefined ? setting : hostPort(setting, port);
}
