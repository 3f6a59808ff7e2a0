/**
 * The configuration in the shape of its file, for `/configz`.
 *
 * @module
 */
import type { Configuration, ModeConfiguration } from "../model/configuration.ts";
import { formatDuration } from "./durations.ts";
import { API_VERSION, KIND } from "./schema.ts";

/** A value that `JSON.stringify` prints as it is. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json };

/**
 * Prints the configuration as a KubeProxyConfiguration (v1alpha1) value, durations as Go's
 * (`30s`, `1m0s`). Read as a file, it gives the same configuration again, but for what a file
 * cannot say: servers that are off, a min sync period of 0, `--master`, signpost's own settings.
 */
export function toKubeProxyConfiguration(configuration: Configuration): Json {
  const { conntrack, detectLocal } = configuration;
  return {
    apiVersion: API_VERSION,
    kind: KIND,
    bindAddress: configuration.bindAddress,
    bindAddressHardFail: configuration.bindAddressHardFail,
    clientConnection: { ...configuration.clientConnection },
    clusterCIDR: configuration.clusterCIDRs.join(","),
    configSyncPeriod: formatDuration(configuration.configSyncPeriod),
    conntrack: {
      maxPerCore: conntrack.maxPerCore,
      min: conntrack.min,
      tcpBeLiberal: conntrack.tcpBeLiberal,
      tcpCloseWaitTimeout: formatDuration(conntrack.tcpCloseWaitTimeout),
      tcpEstablishedTimeout: formatDuration(conntrack.tcpEstablishedTimeout),
      udpStreamTimeout: formatDuration(conntrack.udpStreamTimeout),
      udpTimeout: formatDuration(conntrack.udpTimeout),
    },
    detectLocal: {
      bridgeInterface: detectLocal.bridgeInterface,
      interfaceNamePrefix: detectLocal.interfaceNamePrefix,
    },
    detectLocalMode: configuration.detectLocalMode,
    featureGates: configuration.featureGates,
    healthzBindAddress: configuration.healthzBindAddress,
    hostnameOverride: configuration.hostnameOverride,
    iptables: {
      localhostNodePorts: configuration.iptables.localhostNodePorts,
      ...modeValue(configuration.iptables),
    },
    logging: { format: configuration.logFormat, verbosity: configuration.verbosity },
    metricsBindAddress: configuration.metricsBindAddress,
    mode: configuration.mode,
    nftables: modeValue(configuration.nftables),
    nodePortAddresses: configuration.nodePortAddresses,
    oomScoreAdj: configuration.oomScoreAdj ?? null,
  };
}

function modeValue(mode: ModeConfiguration): { readonly [key: string]: Json } {
  return {
    masqueradeAll: mode.masqueradeAll,
    masqueradeBit: mode.masqueradeBit,
    minSyncPeriod: formatDuration(mode.minSyncPeriod),
    syncPeriod: formatDuration(mode.syncPeriod),
  };
}
