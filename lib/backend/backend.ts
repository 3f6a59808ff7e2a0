/** Defines the backend port: one object for each mode, with everything that depends on the mode. */
import type { RulesetFacts } from "../findings/facts.ts";
import type { Configuration } from "../config/configuration.ts";
import type { AccelerationSummary, Finding } from "../model/status.ts";
import type { Change, Difference, ServiceDifference } from "../model/kernel/differences.ts";
import type { ConnectionCounters } from "../model/connections.ts";
import type { Dataplane } from "../model/kernel/dataplane.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
  StateChange,
} from "../model/kernel/desired.ts";
import type { ModeTraits, RefusedFeatures } from "../model/kernel/traits.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { FAMILIES, type Family } from "../model/values/address.ts";
import type { Match } from "../policy/frontend.ts";
import type { BackendMetrics } from "./metrics.ts";
import type { ProxyTakeOver } from "./take_over.ts";

export interface BackendOptions {
  readonly configuration: Configuration;
  readonly runtime: Pick<
    Runtime,
    "runner" | "pid" | "streamer" | "clock" | "hasIpv6" | "osRelease"
  >;
  readonly logger: Logger;
}

export interface Probed {
  /** The version of the program that writes the rules. */
  readonly version: string;
  readonly missing: MissingFamilies;
  /** Refused features that only some Services need. */
  readonly refusedFeatures: RefusedFeatures;
  /** Faults of the node that still allow rules. */
  readonly findings: readonly Finding[];
  /** The reason for the chosen program, for the log; `""` without a choice. */
  readonly choice: string;
}

/** Names the rule or element behind each kind of verdict; `""` without such a rule. */
export interface RuleNames {
  /** Leads to the endpoints. */
  delivers(match: Match): string;
  /** Leads pods and this node to the cluster's endpoints, under the Local policy. */
  shortCircuit(match: Match): string;
  /** Rejects or drops, because endpoints are missing. */
  refuses(match: Match): string;
  /** Drops sources outside of the source ranges. */
  firewall(match: Match): string;
  /** Rejects a node port on loopback that listeners do not serve. */
  rejectsLocalhost(match: Match): string;
  /** Drops packets of other machines and pods to 127.0.0.0/8. */
  guardsLocalhost(): string;
  /** Rejects ports that a cluster IP does not have. */
  undefinedPort(family: Family): string;
  /** Drops packets to unused addresses of the cluster IPs' range. */
  unallocatedAddress(family: Family): string;
}

export interface DesiredStep {
  readonly change: StateChange;
  /** The node's part of the state after the change. */
  readonly node: DesiredNode;
}

export type ForeignRules = Pick<
  ProxyTakeOver,
  "isServed" | "findProxy" | "run" | "look" | "ipvs" | "rival"
>;

/** Implements a mode. Its creation does not touch the kernel. */
export interface Backend {
  readonly traits: ModeTraits;
  /** Checks if the kernel supports the rules, without writing. @throws {ApplyError} that names what is missing */
  probe(): Promise<Probed>;
  /** Only the daemon applies scripts, after `probe`. */
  readonly dataplane: Dataplane;
  readonly rules: RuleReader;
  readonly foreignRules: ForeignRules;
  readonly metrics: BackendMetrics;
  readonly connections: ConnectionCounters;
  /** The fast path for long connections; absent if the mode or this node does not have it. */
  readonly acceleration?: AccelerationSummary | undefined;
}

/** Reads and names the rules of a mode, and does not write. */
export interface RuleReader {
  /** Reads signpost's rules; `about`: only these ports' rules, which may be faster. @throws {ApplyError} */
  read(about?: PortsOfNode): Promise<KernelRules>;
  /** Reads the rules of other programs that ours depend on. @throws {ApplyError} if they cannot be read */
  readRuleset(): Promise<RulesetFacts>;
  describe(node: DesiredNode): RuleNames;
  /** Starts from a state, and returns a function that lists the changes of each step, deletions first. */
  changesFrom(state: DesiredState): (step: DesiredStep) => Change[];
}

/** One element, rule, chain or set of a Service. */
export interface KernelEntry extends Omit<Difference, "type"> {
  readonly state: "same" | Difference["type"];
}

export interface StickyClient {
  readonly servicePort: string;
  readonly client: string;
  readonly address: string;
  readonly port: number;
  /** Seconds until the kernel removes the client. */
  readonly expiresSeconds: number;
}

export interface Comparison {
  readonly differences: readonly ServiceDifference[];
  /** The number of elements and rules in the desired state. */
  readonly compared: number;
}

export interface KernelRules {
  readonly isEmpty: boolean;
  /** Returns the desired and actual entries of these ports, differences first. */
  entries(ports: readonly DesiredServicePort[], node: DesiredNode): KernelEntry[];
  /** Returns the clients with session affinity, if the kernel lists them. */
  stickyClients(ports: readonly DesiredServicePort[]): StickyClient[];
  compare(state: DesiredState): Comparison;
}

export interface PortsOfNode {
  readonly ports: readonly DesiredServicePort[];
  readonly node: DesiredNode;
}

/** The reason why a family does not have rules, as the end of a sentence. */
type MissingFamilies = ReadonlyMap<Family, string>;

const NO_IPV6 = "this node has no IPv6 (the kernel has no IPv6 sockets)";

export function missingFamilies({ hasIpv6 }: Pick<Runtime, "hasIpv6">): MissingFamilies {
  return hasIpv6() ? new Map() : new Map([[6, NO_IPV6]]);
}

/** Returns all families that are not missing, IPv4 first. */
export function familiesBut(missing: MissingFamilies): readonly Family[] {
  return FAMILIES.filter((family) => !missing.has(family));
}
