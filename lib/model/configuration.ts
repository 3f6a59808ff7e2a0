/**
 * The validated configuration: KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) with its
 * own field names.
 *
 * Defaults are filled in, durations are milliseconds, addresses are canonical. Signpost's own
 * settings are under `signpost`.
 *
 * @module
 */
import type { SchedulerDefaults } from "./cluster/scheduler.ts";
import { isLoopback } from "./values/address.ts";

/** The sections of the configuration that apply in one mode only. */
export interface ModeSections {
  readonly nftables: ModeConfiguration;
  readonly iptables: ModeConfiguration & { readonly localhostNodePorts: boolean };
}

/** The modes. Each has a backend. */
export const MODES = ["nftables", "iptables"] as const;

/** The kernel interface that holds the rules. */
export type Mode = (typeof MODES)[number];

/** The setting `mode`; `""` is nftables if the kernel and nft support it, else iptables. */
export type ProxyMode = "" | Mode;

/** The accepted values of `mode`; `ipvs` is served by nftables rules. */
export type AskedMode = ProxyMode | "ipvs";

/** The ways to recognise pods of this node. */
export type DetectLocalMode =
  | "ClusterCIDR"
  | "NodeCIDR"
  | "BridgeInterface"
  | "InterfaceNamePrefix";

/** Settings that the nftables and iptables sections share. */
export interface ModeConfiguration {
  readonly masqueradeAll: boolean;
  /** 0 to 31. The mark is `1 << masqueradeBit`. */
  readonly masqueradeBit: number;
  /** Milliseconds between full checks of the rules, above 0. */
  readonly syncPeriod: number;
  readonly minSyncPeriod: MinSyncPeriod;
}

/** Milliseconds from the end of a sync to the next. `adaptive` follows the duration of recent syncs. */
export type MinSyncPeriod = number | "adaptive";

/** The media type of API objects in protobuf. The type of a watch stream has a suffix. */
export const PROTOBUF = "application/vnd.kubernetes.protobuf";

/** The connection to the API server. */
export interface ClientConnection {
  /** A path; `""` is the in-cluster service account, or `master` alone. */
  readonly kubeconfig: string;
  /** Media types accepted for a watch, comma-separated; `""` is `contentType`. */
  readonly acceptContentTypes: string;
  /** A media type, protobuf by default. Any other value means JSON. */
  readonly contentType: string;
  /** Without effect: signpost has no limit. */
  readonly qps: number;
  /** Without effect, as `qps`. */
  readonly burst: number;
}

/** Settings of kube-proxy that have no effect here, kept for `/configz`. */
export interface UnusedConfiguration {
  readonly enableProfiling: boolean;
  readonly showHiddenMetricsForVersion: string;
  readonly portRange: string;
  readonly windowsRunAsService: boolean;
  readonly ipvs: {
    readonly scheduler: string;
    readonly excludeCIDRs: readonly string[];
    readonly strictARP: boolean;
    /** Milliseconds, as all times of this section. */
    readonly syncPeriod: number;
    readonly minSyncPeriod: MinSyncPeriod;
    readonly tcpTimeout: number;
    readonly tcpFinTimeout: number;
    readonly udpTimeout: number;
  };
  readonly winkernel: {
    readonly networkName: string;
    readonly sourceVip: string;
    readonly enableDSR: boolean;
    readonly rootHnsEndpointName: string;
    readonly forwardHealthCheckVip: boolean;
  };
  /** Only `verbosity` (`-v`, as in klog) and `format` have an effect. */
  readonly logging: {
    readonly verbosity: number;
    readonly format: "text" | "json";
    /** Milliseconds. */
    readonly flushFrequency: number;
    readonly vmodule: readonly { readonly filePattern: string; readonly verbosity: number }[];
    readonly options: {
      readonly text: OutputOptions;
      readonly json: OutputOptions;
    };
  };
}

/** Output settings of Go's logger. */
export interface OutputOptions {
  readonly splitStream: boolean;
  /** A quantity such as `64Ki`. */
  readonly infoBufferSize: string;
}

/** The validated KubeProxyConfiguration with signpost's own settings. */
export interface Configuration extends UnusedConfiguration, ModeSections {
  /** A canonical address. Its family is the primary one if the Node has no address. */
  readonly bindAddress: string;
  /** If true, a bind failure of the health or metrics server ends the process. */
  readonly bindAddressHardFail: boolean;
  /** `address:port`; `""` means no server. */
  readonly healthzBindAddress: string;
  /** `address:port`; `""` means no server. */
  readonly metricsBindAddress: string;
  readonly clientConnection: ClientConnection;
  /** `--master`: a URL that overrides the kubeconfig's server; `""` if unset. */
  readonly master: string;
  readonly mode: ProxyMode;
  /** Canonical CIDRs, at most one of each family. */
  readonly clusterCIDRs: readonly string[];
  readonly detectLocalMode: DetectLocalMode;
  readonly detectLocal: {
    readonly bridgeInterface: string;
    readonly interfaceNamePrefix: string;
    readonly clusterCIDRs: readonly string[];
  };
  /** `""` is the machine's host name. */
  readonly hostnameOverride: string;
  /** Canonical CIDRs, `primary`, `localhost`, `all`. Empty: nftables primary, iptables all. */
  readonly nodePortAddresses: readonly string[];
  readonly oomScoreAdj: number | undefined;
  readonly conntrack: {
    /** 0 leaves the limit unchanged. */
    readonly maxPerCore: number;
    readonly min: number;
    /** Milliseconds; 0 leaves the timeout unchanged. */
    readonly tcpEstablishedTimeout: number;
    readonly tcpCloseWaitTimeout: number;
    readonly tcpBeLiberal: boolean;
    readonly udpTimeout: number;
    readonly udpStreamTimeout: number;
    /** `ipvs.tcpFinTimeout` if the configured mode is ipvs, else 0. */
    readonly tcpFinWaitTimeout: number;
  };
  /** Milliseconds; kept for `/configz` only. */
  readonly configSyncPeriod: number;
  readonly featureGates: Readonly<Record<string, boolean>>;
  readonly signpost: SignpostConfiguration;
}

/** The greatest cost of one Service, and of all Services of a namespace together; see `costOf`. */
export interface Limits {
  readonly service: number;
  readonly namespace: number;
}

/** Counted in elements. The largest published cluster costs 260,000 in one namespace. */
export const DEFAULT_LIMITS: Limits = { service: 100_000, namespace: 500_000 };

/** Settings that kube-proxy does not have. */
export interface SignpostConfiguration extends SchedulerDefaults {
  /** Files, folders or `-`, instead of an API server; empty: the API server. */
  readonly manifests: readonly string[];
  /** Milliseconds between unconditional replacements of the table; kube-proxy's full sync is hourly. */
  readonly fullSyncPeriod: number;
  /** Milliseconds that connections of kube-proxy's ipvs mode keep working after a take-over. */
  readonly ipvsGracePeriod: number;
  readonly stateFile: string;
  /** The local socket of `signpost status` and related commands; `""` if there is none. */
  readonly socket: string;
  /** If true, the API server is reached through the proxies that the environment names. */
  readonly proxyFromEnvironment: boolean;
  readonly wait: boolean;
  /** Serves the status page on the metrics server; `auto` if that listens on loopback only. */
  readonly statusPage: "auto" | "on" | "off";
  readonly serviceMetrics: boolean;
  readonly limits: Limits;
}

/** The arguments and file in use. They hold paths of credentials, not credentials. */
export interface CommandLine {
  readonly argv: readonly string[];
  /** The folder in which relative paths start. */
  readonly workingDirectory: string;
  /** The file of `--config`, as it was when its settings were applied; `null` if there is none. */
  readonly file: { readonly path: string; readonly text: string } | null;
}

/** The ranges of each word. `primary` has none: it means the Node's addresses. */
const RANGES: ReadonlyMap<string, readonly string[]> = new Map([
  ["primary", []],
  ["localhost", ["127.0.0.0/8", "::1/128"]],
  ["all", ["0.0.0.0/0", "::/0"]],
]);

/** The words. Each means addresses of both families. */
export const NODE_PORT_WORDS: readonly string[] = [...RANGES.keys()];

/** Returns the effective entries: of the configuration, or the default of the mode. */
export function nodePortEntries(
  { nodePortAddresses }: Pick<Configuration, "nodePortAddresses">,
  { primaryNodePorts }: { readonly primaryNodePorts: boolean },
): readonly string[] {
  return nodePortAddresses.length === 0 && primaryNodePorts ? ["primary"] : nodePortAddresses;
}

/** Replaces words by their ranges, and drops `primary`. */
export function nodePortRanges(entries: readonly string[]): readonly string[] {
  return entries.flatMap((entry) => RANGES.get(entry) ?? [entry]);
}

/** Returns true if a range names loopback itself. A range that also has other addresses does not. */
export function isLoopbackRange(cidr: string): boolean {
  return isLoopback(cidr.replace(/\/.*/, ""));
}
