/**
 * KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1), field by field, as of kube-proxy 1.36;
 * see staging/src/k8s.io/kube-proxy/config/v1alpha1/types.go in Kubernetes.
 *
 * @module
 */
import * as z from "zod/mini";
import {
  boolean,
  duration,
  durationOrNanoseconds,
  field,
  INT32_MAX,
  integer,
  list,
  mapping,
  number,
  quantity,
  section,
  switches,
  text,
} from "./fields.ts";
import {
  address,
  bindAddress,
  cidr,
  clusterCidrs,
  detectLocalMode,
  interfaceName,
  nodeName,
  nodePortAddress,
  oneOf,
  path,
  proxyMode,
  serverUrl,
} from "./readers.ts";

/** The API version of the file. */
export const API_VERSION = "kubeproxy.config.k8s.io/v1alpha1";

/** The kind of the file. */
export const KIND = "KubeProxyConfiguration";

const output = section({ splitStream: field(boolean), infoBufferSize: field(quantity) });

const periods = { syncPeriod: field(duration), minSyncPeriod: field(duration) };

const masquerade = { masqueradeBit: field(integer(0, 31)), masqueradeAll: field(boolean) };

const fields = {
  featureGates: switches(),
  clientConnection: section({
    kubeconfig: field(path),
    acceptContentTypes: field(text),
    contentType: field(text),
    qps: field(number),
    burst: field(integer(0, INT32_MAX)),
  }),
  logging: section({
    format: field(oneOf("text", "json")),
    flushFrequency: field(durationOrNanoseconds),
    verbosity: field(integer(0, INT32_MAX)),
    vmodule: list((value) => value),
    options: section({ text: output, json: output }),
  }),
  hostnameOverride: field(nodeName),
  bindAddress: field(address),
  healthzBindAddress: field(bindAddress),
  metricsBindAddress: field(bindAddress),
  bindAddressHardFail: field(boolean),
  enableProfiling: field(boolean),
  showHiddenMetricsForVersion: field(text),
  mode: field(proxyMode),
  iptables: section({ ...masquerade, ...periods, localhostNodePorts: field(boolean) }),
  ipvs: section({
    ...periods,
    scheduler: field(text),
    excludeCIDRs: list(cidr),
    strictARP: field(boolean),
    tcpTimeout: field(duration),
    tcpFinTimeout: field(duration),
    udpTimeout: field(duration),
  }),
  nftables: section({ ...masquerade, ...periods }),
  winkernel: section({
    networkName: field(text),
    sourceVip: field(text),
    enableDSR: field(boolean),
    rootHnsEndpointName: field(text),
    forwardHealthCheckVip: field(boolean),
  }),
  detectLocalMode: field(detectLocalMode),
  detectLocal: section({
    bridgeInterface: field(interfaceName),
    interfaceNamePrefix: field(interfaceName),
  }),
  clusterCIDR: field(clusterCidrs),
  nodePortAddresses: list(nodePortAddress),
  oomScoreAdj: field(integer(-1000, 1000)),
  conntrack: section({
    maxPerCore: field(integer(0, INT32_MAX)),
    min: field(integer(0, INT32_MAX)),
    tcpEstablishedTimeout: field(duration),
    tcpCloseWaitTimeout: field(duration),
    tcpBeLiberal: field(boolean),
    udpTimeout: field(duration),
    udpStreamTimeout: field(duration),
  }),
  configSyncPeriod: field(duration),
  portRange: field(text),
  windowsRunAsService: field(boolean),
};

/** What a configuration file may say. */
export const fileSchema = mapping({
  apiVersion: z.literal(API_VERSION),
  kind: z.literal(KIND),
  ...fields,
});

/** What flags may say: the same, and what has no place in the file. */
export const flagSchema = mapping({
  ...fields,
  /** `--master`. */
  master: field(serverUrl),
  /** `--healthz-port`, deprecated: 0 is no server. */
  healthzPort: field(integer(0, 65535)),
  /** `--metrics-port`, deprecated: 0 is no server. */
  metricsPort: field(integer(0, 65535)),
  signpost: section({
    manifests: list(path),
    fullSyncPeriod: field(duration),
    stateFile: field(path),
    socket: field(path),
    statusPage: field(oneOf("auto", "on", "off")),
  }),
  command: section({
    config: field(path),
    once: field(boolean),
    output: field(oneOf("script", "json")),
    cleanup: field(boolean),
    initOnly: field(boolean),
    writeConfigTo: field(path),
    kubeProxy: field(boolean),
    dryRun: field(boolean),
    report: field(oneOf("table", "json", "yaml")),
    from: field(oneOf("pod", "node", "external")),
    trace: field(boolean),
    conntrack: field(boolean),
    fix: field(boolean),
    watch: field(boolean),
    services: field(boolean),
  }),
});

/** The settings of a file, checked one by one: durations in milliseconds, addresses canonical. */
export type FileSettings = Omit<z.output<typeof fileSchema>, "apiVersion" | "kind">;

/** The settings of flags, checked one by one. */
export type FlagSettings = z.output<typeof flagSchema>;
