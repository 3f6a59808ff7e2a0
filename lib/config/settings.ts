/**
 * Defines all settings, by the title of their flags and by their path: `conntrack.min`. Most are kube-proxy's
 * (cmd/kube-proxy/app/options.go). A new setting is one row. The type of the configuration, its flag, `/configz`, help,
 * completion and the manual page follow from it.
 */
import {
  HASH_SOURCES,
  type HashSource,
  type SchedulerName,
  SCHEDULERS,
} from "../model/cluster/scheduler.ts";
import {
  ACCELERATED_SERVICES,
  type Acceleration,
  type AskedMode,
  DEFAULT_LIMITS,
  MODES,
  PROTOBUF,
} from "../model/configuration.ts";
import { plain } from "../model/values/text.ts";
import * as read from "./file/readers.ts";
import {
  choice,
  duration,
  flagOnly,
  list,
  minSyncPeriod,
  type Setting,
  switches,
  switchFlag,
  value,
} from "./setting.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

export const HEALTHZ_PORT = 10256;
export const METRICS_PORT = 10249;

/** The fast path slows short connections down: 20 packets are an exchange of a few kilobytes. */
const ACCELERATED_PACKETS = 20;

/** The default slots of the lookup table for consistent hashing. */
const HASH_TABLE_SIZE = 251;

/** The largest table. A larger one needs too many elements for each frontend. */
const MAX_HASH_TABLE_SIZE = 65_521;

export const UNUSED_TITLE = "Accepted without effect";

export const SETTING_GROUPS = {
  Sources: {
    configFile: flagOnly(read.path, "", {
      flag: "--config FILE",
      help: "KubeProxyConfiguration file (v1alpha1); flags win over it.",
    }),
    "clientConnection.kubeconfig": value(read.path, "", {
      flag: "--kubeconfig FILE",
      help:
        "Address and credentials of the API server; without it, the in-cluster service account.",
    }),
    master: flagOnly(read.serverUrl, "", {
      flag: "--master URL",
      help: "The API server's URL, instead of the kubeconfig's.",
    }),
    "signpost.proxyFromEnvironment": switchFlag(
      "--proxy-from-environment",
      "Reach the API server through the proxy that HTTPS_PROXY or HTTP_PROXY names.",
    ),
    "clientConnection.contentType": value<string>(read.text, PROTOBUF, {
      empty: "everywhere",
      flag: "--kube-api-content-type VALUE",
      help: "Encoding of watches: application/vnd.kubernetes.protobuf or application/json.",
    }),
    "clientConnection.acceptContentTypes": value(read.text, ""),
    "signpost.manifests": list(read.path, {
      inFile: false,
      flag: "--manifests PATH",
      kind: "words",
      help: "Read objects from a file, a folder or - (stdin), not from an API server; repeatable.",
    }),
    hostnameOverride: value(read.nodeName, "", {
      flag: "--hostname-override NAME",
      help: "The name of this Node; without it, the machine's host name.",
    }),
    configSyncPeriod: duration(15 * MINUTE, {
      empty: "in the file",
      flag: "--config-sync-period DURATION",
      help: "Only shown in /configz: watches are not refreshed.",
    }),
  },
  Rules: {
    mode: choice<AskedMode>([...MODES, "ipvs"], "", {
      flag: "--proxy-mode MODE",
      help: "nftables, iptables, or ipvs, which nftables serves; empty: nftables if it works here.",
    }),
    clusterCIDR: value<readonly string[]>(read.clusterCidrs, [], {
      flag: "--cluster-cidr CIDRS",
      help: "The range of all pods; for dual-stack, one of each family with a comma.",
    }),
    detectLocalMode: choice(
      ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"],
      "ClusterCIDR",
      { flag: "--detect-local-mode MODE", help: "How pods of this node are recognised." },
    ),
    "detectLocal.bridgeInterface": value(read.interfaceName, "", {
      flag: "--pod-bridge-interface NAME",
      help: "The pods' bridge, for --detect-local-mode BridgeInterface.",
    }),
    "detectLocal.interfaceNamePrefix": value(read.interfaceName, "", {
      flag: "--pod-interface-name-prefix PREFIX",
      help: "Prefix of the pods' interfaces, for --detect-local-mode InterfaceNamePrefix.",
    }),
    nodePortAddresses: list(read.nodePortAddress, {
      flag: "--nodeport-addresses CIDRS",
      help:
        "Addresses of node ports: CIDRs, primary, localhost, all. Default: primary (nftables), all (iptables).",
    }),
    "nftables.masqueradeAll": value(read.boolean, false, {
      flag: "--masquerade-all",
      help: "Masquerade all traffic to cluster IPs.",
      alsoSets: ["iptables.masqueradeAll"],
    }),
    "iptables.masqueradeAll": value(read.boolean, false),
    "nftables.masqueradeBit": value(read.integer(0, 31), 14, {
      flag: "--nftables-masquerade-bit BIT",
      help: "The bit of the packet mark in nftables mode, 0 to 31.",
    }),
    "iptables.masqueradeBit": value(read.integer(0, 31), 14, {
      flag: "--iptables-masquerade-bit BIT",
      help: "The same in iptables mode, and in both if no mode is set.",
    }),
    "iptables.localhostNodePorts": value(read.boolean, true, {
      flag: "--iptables-localhost-nodeports",
      help: "Node ports answer on 127.0.0.1 (iptables mode, IPv4).",
    }),
    "iptables.syncPeriod": duration(30 * SECOND, {
      empty: "in the file",
      flag: "--iptables-sync-period DURATION",
      help: "Time between full checks of the rules, in every mode but ipvs.",
      alsoSets: ["nftables.syncPeriod"],
    }),
    "nftables.syncPeriod": duration(30 * SECOND, { empty: "in the file" }),
    "iptables.minSyncPeriod": minSyncPeriod({
      flag: "--iptables-min-sync-period DURATION",
      help: "Shortest pause between two syncs, in every mode but ipvs; adaptive: up to 1s.",
      alsoSets: ["nftables.minSyncPeriod"],
    }),
    "nftables.minSyncPeriod": minSyncPeriod(),
    "signpost.fullSyncPeriod": duration(HOUR, {
      inFile: false,
      flag: "--full-sync-period DURATION",
      help: "Time between replacements of all rules.",
    }),
    "signpost.ipvsGracePeriod": duration(300 * SECOND, {
      inFile: false,
      flag: "--ipvs-grace-period DURATION",
      help: "How long connections of kube-proxy's ipvs mode may live on.",
    }),
    featureGates: switches({
      flag: "--feature-gates NAME=BOOL",
      help:
        "AllowServiceExternalIPs=false leaves externalIPs out, KubeProxyIPVS=false refuses mode ipvs; other gates have no effect.",
    }),
  },
  /** The scheduler of connections. A Service may override it, see docs/ipvs.md. */
  Schedulers: {
    "signpost.scheduler": choice<SchedulerName>(SCHEDULERS, "random", {
      flag: "--scheduler NAME",
      help: `How Services spread connections: ${
        SCHEDULERS.join(", ")
      }. The annotation signpost.dev/scheduler sets it for one Service.`,
    }),
    "signpost.hash": choice<HashSource>(HASH_SOURCES, "source", {
      flag: "--scheduler-hash NAME",
      help:
        "Input of consistent-hash: source or source-and-port. The annotation signpost.dev/hash sets it for one Service.",
    }),
    "signpost.hashTableSize": value(read.prime(2, MAX_HASH_TABLE_SIZE), HASH_TABLE_SIZE, {
      flag: "--hash-table-size N",
      help:
        "Slots of the consistent-hash table: a prime, the same on every node. A larger table is more even, and costs more.",
    }),
    "ipvs.scheduler": value(read.text, "", {
      flag: "--ipvs-scheduler NAME",
      help: "With --proxy-mode ipvs: the scheduler by its IPVS name; see docs/ipvs.md.",
    }),
    "ipvs.syncPeriod": duration(30 * SECOND, {
      empty: "in the file",
      flag: "--ipvs-sync-period DURATION",
      help: "With --proxy-mode ipvs: time between full checks of the rules.",
    }),
    "ipvs.minSyncPeriod": minSyncPeriod({
      flag: "--ipvs-min-sync-period DURATION",
      help: "With --proxy-mode ipvs: how long changes are gathered.",
    }),
    "ipvs.excludeCIDRs": list(read.cidr, {
      flag: "--ipvs-exclude-cidrs CIDRS",
      help: "Virtual servers of IPVS in these ranges are not kube-proxy's, and stay.",
    }),
    "ipvs.tcpTimeout": duration(0, {
      flag: "--ipvs-tcp-timeout DURATION",
      help: "With --proxy-mode ipvs: as --conntrack-tcp-timeout-established.",
    }),
    "ipvs.tcpFinTimeout": duration(0, {
      flag: "--ipvs-tcpfin-timeout DURATION",
      help: "With --proxy-mode ipvs: for TCP connections after a FIN (FIN_WAIT); 0: leave it.",
    }),
    "ipvs.udpTimeout": duration(0, {
      flag: "--ipvs-udp-timeout DURATION",
      help:
        "With --proxy-mode ipvs: as --conntrack-udp-timeout and --conntrack-udp-timeout-stream.",
    }),
  },
  /** The fast path is off until interfaces are named. */
  Acceleration: {
    "signpost.acceleration.interfaces": list(read.interfacePattern, {
      flag: "--acceleration-interfaces PATTERNS",
      help:
        "Long connections between these interfaces take the kernel's fast path (nftables mode), such as eth0,veth*; see docs/acceleration.md.",
    }),
    "signpost.acceleration.packets": value<number>(read.integer(1), ACCELERATED_PACKETS, {
      flag: "--acceleration-packets N",
      help: "Packets of a connection before it takes the fast path.",
    }),
    "signpost.acceleration.services": choice<Acceleration["services"]>(
      ACCELERATED_SERVICES,
      "all",
      {
        flag: "--acceleration-services NAME",
        help:
          "Services whose connections may take it: all or annotated. The annotation signpost.dev/acceleration (on, off) sets it for one Service.",
      },
    ),
  },
  /** A Service over a limit is refused alone. The defaults exceed the costs of known clusters. */
  Limits: {
    "signpost.limits.service": value(read.integer(1), DEFAULT_LIMITS.service, {
      flag: "--max-service-cost N",
      help: "Elements of kernel sets that one Service may cost; see Limits in docs/differences.md.",
    }),
    "signpost.limits.namespace": value(read.integer(1), DEFAULT_LIMITS.namespace, {
      flag: "--max-namespace-cost N",
      help: "Elements that all Services of one namespace may cost.",
    }),
  },
  "Health and metrics": {
    bindAddress: value<string>(read.address, "0.0.0.0", {
      empty: "everywhere",
      flag: "--bind-address IP",
      help: "This node's primary IP, if the Node has none.",
    }),
    bindAddressHardFail: value(read.boolean, false, {
      flag: "--bind-address-hard-fail",
      help: "Exit if the health or metrics server cannot listen.",
    }),
    healthzBindAddress: value(read.bindAddress, `0.0.0.0:${HEALTHZ_PORT}`, {
      empty: "in the file",
      flag: "--healthz-bind-address IP:PORT",
      help: "Address of /healthz, /livez and /readyz; 0.0.0.0: all of IPv4 and IPv6; empty: none.",
    }),
    metricsBindAddress: value(read.bindAddress, `127.0.0.1:${METRICS_PORT}`, {
      empty: "in the file",
      flag: "--metrics-bind-address IP:PORT",
      help:
        "Address of /metrics, the status page and /configz, /flagz, /statusz, /proxyMode; empty: none.",
    }),
    "signpost.statusPage": choice(["auto", "on", "off"], "auto", {
      inFile: false,
      flag: "--status-page MODE",
      help: "The metrics server's page for browsers: auto (on loopback alone), on or off.",
    }),
    "signpost.serviceMetrics": value(read.boolean, true, {
      flag: "--service-metrics",
      help: "Count new connections by Service, for /metrics and signpost top.",
    }),
    healthzPort: flagOnly(read.integer(0, 65535), HEALTHZ_PORT, {
      flag: "--healthz-port PORT",
      help: "Deprecated: use --healthz-bind-address. 0: no server.",
    }),
    metricsPort: flagOnly(read.integer(0, 65535), METRICS_PORT, {
      flag: "--metrics-port PORT",
      help: "Deprecated: use --metrics-bind-address. 0: no server.",
    }),
  },
  /** The kernel's connection tracking; see `conntrack` in KubeProxyConfiguration. */
  "Connection tracking": {
    "conntrack.maxPerCore": value(read.integer(0), 32 * 1024, {
      flag: "--conntrack-max-per-core N",
      help: "Connections to track per CPU core; 0: leave the limit.",
    }),
    "conntrack.min": value(read.integer(0), 128 * 1024, {
      flag: "--conntrack-min N",
      help: "Connections to track at least.",
    }),
    "conntrack.tcpEstablishedTimeout": duration(24 * HOUR, {
      flag: "--conntrack-tcp-timeout-established DURATION",
      help: "For idle TCP connections; 0: leave it.",
    }),
    "conntrack.tcpCloseWaitTimeout": duration(HOUR, {
      flag: "--conntrack-tcp-timeout-close-wait DURATION",
      help: "For TCP connections in CLOSE_WAIT; 0: leave it.",
    }),
    "conntrack.tcpBeLiberal": value(read.boolean, false, {
      flag: "--conntrack-tcp-be-liberal",
      help: "Take TCP packets out of window for valid (nf_conntrack_tcp_be_liberal).",
    }),
    // Set by ipvs.tcpFinTimeout if the mode is ipvs.
    "conntrack.tcpFinWaitTimeout": duration(0, { inFile: false }),
    "conntrack.udpTimeout": duration(0, {
      flag: "--conntrack-udp-timeout DURATION",
      help: "For UDP without a reply; 0: leave it.",
    }),
    "conntrack.udpStreamTimeout": duration(0, {
      flag: "--conntrack-udp-timeout-stream DURATION",
      help: "For UDP with replies; 0: leave it.",
    }),
  },
  "Process and logs": {
    "logging.verbosity": value(read.integer(0), 0, {
      flag: "-v, --v LEVEL",
      alone: "1",
      help: "How much is logged or shown; 0 is the least, -v alone is 1.",
    }),
    "logging.format": choice(["text", "json"], "text", {
      flag: "--logging-format FORMAT",
      help: "The form of log lines: text or json.",
    }),
    oomScoreAdj: value(read.integer(-1000, 1000), -999, {
      flag: "--oom-score-adj N",
      help: "For the kernel's out-of-memory killer, -1000 to 1000.",
    }),
    "signpost.stateFile": flagOnly(read.path, "/var/lib/signpost/state.json.gz", {
      flag: "--state-file FILE",
      help: "The last complete state; empty: none.",
    }),
    "signpost.wait": switchFlag(
      "--wait",
      "If another signpost writes this node's rules, wait for its end, then start.",
    ),
    "signpost.socket": flagOnly(read.path, "/run/signpost/signpost.sock", {
      flag: "--socket PATH",
      help: "Socket for signpost status and other commands; empty: none.",
    }),
  },
  /** kube-proxy's settings for Windows, Go's runtime and logger, and its client: checked, and named in one warning. */
  [UNUSED_TITLE]: {
    "ipvs.strictARP": value(read.boolean, false, { flag: "--ipvs-strict-arp" }),
    enableProfiling: value(read.boolean, false, { flag: "--profiling" }),
    showHiddenMetricsForVersion: value(read.text, "", {
      flag: "--show-hidden-metrics-for-version VALUE",
    }),
    "clientConnection.burst": value(read.integer(0), 10, {
      empty: "in the file",
      flag: "--kube-api-burst N",
    }),
    "clientConnection.qps": value(read.number, 5, {
      empty: "in the file",
      flag: "--kube-api-qps VALUE",
      kind: "number",
    }),
    "logging.flushFrequency": {
      ...duration(5 * SECOND, { empty: "in the file", flag: "--log-flush-frequency DURATION" }),
      read: read.durationOrNanoseconds,
    },
    "logging.options.text.splitStream": value(read.boolean, false, {
      flag: "--log-text-split-stream",
    }),
    "logging.options.text.infoBufferSize": value(read.quantity, "0", {
      empty: "in the file",
      flag: "--log-text-info-buffer-size VALUE",
    }),
    "logging.options.json.splitStream": value(read.boolean, false, {
      flag: "--log-json-split-stream",
    }),
    "logging.options.json.infoBufferSize": value(read.quantity, "0", {
      empty: "in the file",
      flag: "--log-json-info-buffer-size VALUE",
    }),
    "logging.vmodule": list(read.vmoduleItem),
    "winkernel.networkName": value(read.text, ""),
    "winkernel.sourceVip": value(read.text, ""),
    "winkernel.enableDSR": value(read.boolean, false),
    "winkernel.rootHnsEndpointName": value(read.text, ""),
    "winkernel.forwardHealthCheckVip": value(read.boolean, false),
    portRange: value(read.text, ""),
    windowsRunAsService: value(read.boolean, false),
  },
} satisfies Readonly<Record<string, Readonly<Record<string, Setting<unknown>>>>>;

/** Flags of Go's logger and of cAdvisor that set nothing. */
export const UNUSED_FLAGS = {
  vmodule: flagOnly(read.text, "", { flag: "--vmodule VALUE" }),
  bootIdFile: flagOnly(read.text, "", { flag: "--boot-id-file VALUE" }),
  machineIdFile: flagOnly(read.text, "", { flag: "--machine-id-file VALUE" }),
};

type Group = typeof SETTING_GROUPS[keyof typeof SETTING_GROUPS];

type PathsOf<G> = G extends unknown ? keyof G : never;

/** The path of a setting, such as `conntrack.min`. */
export type SettingPath = PathsOf<Group>;

export type Settings = {
  readonly [P in SettingPath]: Extract<Group, Record<P, Setting<unknown>>>[P]["default"];
};

export type GivenSettings = { readonly [P in SettingPath]?: Settings[P] | undefined };

export const ROWS: ReadonlyMap<string, Setting<unknown>> = new Map(
  Object.values(SETTING_GROUPS).flatMap((group) => Object.entries<Setting<unknown>>(group)),
);

/** Values by their names, in sections. */
interface Sections<T> {
  [name: string]: T | Sections<T>;
}

/** Returns values in their sections: `conntrack.min` is `min` in `conntrack`. */
export function inSections<T>(values: Iterable<readonly [path: string, value: T]>): Sections<T> {
  const result: Sections<T> = {};
  for (const [path, value] of values) {
    const names = path.split(".");
    const last = names.pop() ?? path;
    let section = result;
    for (const name of names) section = (section[name] ??= {}) as Sections<T>;
    section[last] = value;
  }
  return result;
}

export interface Origin {
  readonly settings: GivenSettings;
  readonly file: GivenSettings;
  /** `""` without a file. */
  readonly fileName: string;
  /** The flag that set a path. */
  readonly setBy: ReadonlyMap<string, string>;
}

/** Returns the place of a path: `--conntrack-min`, `/etc/x.yaml: conntrack.min`, or the path itself. */
export function settingPlace({ file, fileName, setBy }: Origin, path: SettingPath): string {
  return setBy.get(path) ?? (file[path] !== undefined ? `${plain(fileName)}: ${path}` : path);
}
