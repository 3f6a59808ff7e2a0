/** Declares values of the configuration that other folders use. */
import { isLoopback } from "./values/address.ts";

export const MODES = ["nftables", "iptables"] as const;

/** A mode, and its section of settings. */
export type Mode = (typeof MODES)[number];

/** The setting `mode`; `""` is nftables if the kernel and nft support it, else iptables. */
export type ProxyMode = "" | Mode;

/** The accepted values of `mode`; `ipvs` is served by nftables rules. */
export type AskedMode = ProxyMode | "ipvs";

/** Milliseconds from the end of a sync to the next. `adaptive` follows the duration of recent syncs. */
export type MinSyncPeriod = number | "adaptive";

/** The media type of API objects in protobuf. The type of a watch stream has a suffix. */
export const PROTOBUF = "application/vnd.kubernetes.protobuf";

/** The greatest cost of one Service, and of all Services of a namespace together; see `costOf`. */
export interface Limits {
  readonly service: number;
  readonly namespace: number;
}

/** Counts elements. The largest published cluster costs 260,000 in one namespace. */
export const DEFAULT_LIMITS: Limits = { service: 100_000, namespace: 500_000 };

/** The Services whose connections take the fast path: all, or Services with the annotation. */
export const ACCELERATED_SERVICES = ["all", "annotated"] as const;

/** The fast path of the kernel for long connections (nftables mode). */
export interface Acceleration {
  /** Names of interfaces, or prefixes before a `*`; empty turns the fast path off. */
  readonly interfaces: readonly string[];
  /** Packets of a connection, of both directions together, on the usual path. */
  readonly packets: number;
  /** A Service's annotation `signpost.dev/acceleration` overrides it. */
  readonly services: typeof ACCELERATED_SERVICES[number];
}

/** The arguments and file in use. They hold paths of credentials, not credentials. */
export interface CommandLine {
  readonly argv: readonly string[];
  readonly workingDirectory: string;
  /** The file of `--config`, as it was when its settings were applied; `null` without a file. */
  readonly file: { readonly path: string; readonly text: string } | null;
}

/** The ranges of each word. `primary` has an empty list: it means the Node's addresses. */
const RANGES: ReadonlyMap<string, readonly string[]> = new Map([
  ["primary", []],
  ["localhost", ["127.0.0.0/8", "::1/128"]],
  ["all", ["0.0.0.0/0", "::/0"]],
]);

/** The words for `nodePortAddresses`. Each means addresses of both families. */
export const NODE_PORT_WORDS: readonly string[] = [...RANGES.keys()];

/** Returns the entries in use: from the configuration, or the default of the mode. */
export function nodePortEntries(
  { nodePortAddresses }: { readonly nodePortAddresses: readonly string[] },
  { primaryNodePorts }: { readonly primaryNodePorts: boolean },
): readonly string[] {
  return nodePortAddresses.length === 0 && primaryNodePorts ? ["primary"] : nodePortAddresses;
}

/** Replaces words by their ranges, and drops `primary`. */
export function nodePortRanges(entries: readonly string[]): readonly string[] {
  return entries.flatMap((entry) => RANGES.get(entry) ?? [entry]);
}

/** Returns true if a range names loopback alone. */
export function isLoopbackRange(cidr: string): boolean {
  return isLoopback(cidr.replace(/\/.*/, ""));
}
