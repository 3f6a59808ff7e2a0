/**
 * A configuration for tests: kube-proxy's defaults, with what a test changes.
 *
 * @module
 */
import { type Configuration, PROTOBUF } from "../../lib/model/configuration.ts";

/** kube-proxy 1.36's defaults. */
export const DEFAULTS: Configuration = {
  bindAddress: "0.0.0.0",
  bindAddressHardFail: false,
  healthzBindAddress: "",
  metricsBindAddress: "",
  clientConnection: { kubeconfig: "", acceptContentTypes: "", contentType: PROTOBUF },
  master: "",
  mode: "nftables",
  clusterCIDRs: [],
  detectLocalMode: "ClusterCIDR",
  detectLocal: { bridgeInterface: "", interfaceNamePrefix: "", clusterCIDRs: [] },
  hostnameOverride: "",
  nodePortAddresses: [],
  oomScoreAdj: undefined,
  nftables: { masqueradeAll: false, masqueradeBit: 14, syncPeriod: 30_000, minSyncPeriod: 1_000 },
  iptables: {
    masqueradeAll: false,
    masqueradeBit: 14,
    syncPeriod: 30_000,
    minSyncPeriod: 1_000,
    localhostNodePorts: true,
  },
  conntrack: {
    maxPerCore: 0,
    min: 0,
    tcpEstablishedTimeout: 0,
    tcpCloseWaitTimeout: 0,
    tcpBeLiberal: false,
    udpTimeout: 0,
    udpStreamTimeout: 0,
  },
  configSyncPeriod: 900_000,
  featureGates: {},
  verbosity: 0,
  logFormat: "text",
  signpost: {
    manifests: [],
    fullSyncPeriod: 3_600_000,
    stateFile: "",
    socket: "",
    statusPage: "auto",
  },
};

/** The defaults but for the given settings. */
export function configuration(changes: Partial<Configuration> = {}): Configuration {
  return { ...DEFAULTS, ...changes };
}
