/**
 * The validated configuration: KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1) by its
 * own names, defaults filled in, durations in milliseconds, addresses canonical, and signpost's
 * own few settings under `signpost`.
 *
 * @module
 */
import type { SchedulerDefaults } from "./cluster/scheduler.ts";

/** The sections of the configuration that hold in one mode each. */
export interface ModeSections {
  readonly nftables: ModeConfiguration;
  readonly iptables: ModeConfiguration & { readonly localhostNodePorts: boolean };
}

/** The modes; each has a backend. */
export const MODES = ["nftables", "iptables"] as const;

/** How rules get into the kernel. */
export type Mode = (typeof MODES)[number];

/** The setting; `""`: nftables where the kernel and nft can do it, else iptables. */
export type ProxyMode = "" | Mode;

/** What may be asked for; nftables rules serve `ipvs`. */
export type AskedMode = ProxyMode | "ipvs";

/** How pods of this node are recognised. */
export type DetectLocalMode =
  | "ClusterCIDR"
  | "NodeCIDR"
  | "BridgeInterface"
  | "InterfaceNamePrefix";

/** Settings that the nftables and the iptables section share. */
export interface ModeConfiguration {
  readonly masqueradeAll: boolean;
  /** 0 to 31; the mark is `1 << masqueradeBit`. */
  readonly masqueradeBit: number;
  /** Milliseconds between full checks of the rules; above 0. */
  readonly syncPeriod: number;
  readonly minSyncPeriod: MinSyncPeriod;
}

/**
 * Milliseconds from the end of a sync until the next one may begin; `adaptive`, where nothing is set:
 * by what the last syncs took.
 */
export type MinSyncPeriod = number | "adaptive";

/** Media type of the API's objects in protobuf; that of a watch stream goes on behind it. */
export const PROTOBUF = "application/vnd.kubernetes.protobuf";

/** Where and how to reach the API server. */
export interface ClientConnection {
  /** Path; `""`: in-cluster service account, or `master` alone. */
  readonly kubeconfig: string;
  /** Media types that the server may answer a watch in, comma-separated; `""`: `contentType`. */
  readonly acceptContentTypes: string;
  /** A media type, protobuf by default. Whatever is not protobuf means JSON. */
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
    /** Milliseconds, as those below. */
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
  /** `verbosity` and `format` have an effect; they are in `verbosity` and `logFormat`, too. */
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

/** How Go's logger writes. */
export interface OutputOptions {
  readonly splitStream: boolean;
  /** A quantity: `64Ki`. */
  readonly infoBufferSize: string;
}

/** KubeProxyConfiguration, validated, and signpost's own settings. */
export interface Configuration extends UnusedConfiguration, ModeSections {
  /** Canonical address; its family is the primary one where the Node does not tell. */
  readonly bindAddress: string;
  /** A bind failure of the health or metrics server ends the process. */
  readonly bindAddressHardFail: boolean;
  /** `address:port`; `""`: no server. */
  readonly healthzBindAddress: string;
  /** `address:port`; `""`: no server. */
  readonly metricsBindAddress: string;
  readonly clientConnection: ClientConnection;
  /** `--master`: URL that overrides the kubeconfig's server; `""`: none. */
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
  /** `""`: the machine's host name. */
  readonly hostnameOverride: string;
  /** Canonical CIDRs and the words `primary`, `localhost`, `all`; empty: the mode's default (nftables primary, iptables all). */
  readonly nodePortAddresses: readonly string[];
  readonly oomScoreAdj: number | undefined;
  readonly conntrack: {
    /** 0: leave the limit as it is. */
    readonly maxPerCore: number;
    readonly min: number;
    /** Milliseconds; 0: leave as it is. */
    readonly tcpEstablishedTimeout: number;
    readonly tcpCloseWaitTimeout: number;
    readonly tcpBeLiberal: boolean;
    readonly udpTimeout: number;
    readonly udpStreamTimeout: number;
    /** `ipvs.tcpFinTimeout`, where the mode asked for is ipvs; else 0. */
    readonly tcpFinWaitTimeout: number;
  };
  /** Milliseconds between refreshes of the configuration that kube-proxy reads from the API; kept for `/configz`. */
  readonly configSyncPeriod: number;
  readonly featureGates: Readonly<Record<string, boolean>>;
  /** `-v`: klog's verbosity. */
  readonly verbosity: number;
  readonly logFormat: "text" | "json";
  readonly signpost: SignpostConfiguration;
}

/** The cost that one Service, and all Services of a namespace together, may have; see `costOf`. */
export interface Limits {
  readonly service: number;
  readonly namespace: number;
}

/**
 * A Service of 5,000 endpoints, three ports and four addresses costs 60,000; 100,000 elements take the
 * kernel and nft 0.3 s to load and 25 MB. The largest published cluster (5,000 Services of 50
 * endpoints) costs 260,000 in one namespace.
 */
export const DEFAULT_LIMITS: Limits = { service: 100_000, namespace: 500_000 };

/** Settings that kube-proxy does not have. */
export interface SignpostConfiguration extends SchedulerDefaults {
  /** Files, folders or `-`, instead of an API server; empty: the API server. */
  readonly manifests: readonly string[];
  /** Milliseconds between unconditional replacements of the table; kube-proxy's full sync is hourly. */
  readonly fullSyncPeriod: number;
  /** Milliseconds that connections have which kube-proxy's ipvs mode left open. */
  readonly ipvsGracePeriod: number;
  /** Where the last complete state is kept; `""`: nowhere. */
  readonly stateFile: string;
  /** The local socket of `signpost status` and its kin; `""`: none. */
  readonly socket: string;
  /** Whether the API server is reached through the proxies that the environment names. */
  readonly proxyFromEnvironment: boolean;
  /** Whether to wait for the end of another signpost in this network namespace. */
  readonly wait: boolean;
  /** Whether the metrics server shows the status page; `auto`: where it listens on loopback alone. */
  readonly statusPage: "auto" | "on" | "off";
  /** Whether new connections are counted by Service. */
  readonly serviceMetrics: boolean;
  /** A Service over a limit keeps its last state within it. */
  readonly limits: Limits;
}
