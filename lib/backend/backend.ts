/**
 * The backend port: one object for each mode, with all that depends on the mode.
 *
 * A backend is made without touching the kernel. Only the daemon applies scripts, and only after
 * `probe`; all other methods may be called at any time.
 *
 * @module
 */
import type { RulesetFacts } from "../findings/facts.ts";
import type { Configuration } from "../model/configuration.ts";
import type { Finding } from "../model/finding.ts";
import type { Change } from "../model/kernel/change.ts";
import type { ConnectionCounters } from "../model/kernel/connections.ts";
import type { ApplyError, Dataplane, Script } from "../model/kernel/dataplane.ts";
import type { DesiredNode, DesiredState, StateChange } from "../model/kernel/desired.ts";
import type { Drift } from "../model/kernel/drift.ts";
import type { RefusedFeatures } from "../model/kernel/features.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import type { LogFields, Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import type { Family } from "../model/values/address.ts";
import type { Match } from "../policy/frontend.ts";
import type { MissingFamilies } from "./ip_families.ts";
import type { KernelRules, PortRules, PortsOfNode } from "./kernel_rules.ts";
import type { BackendMetrics } from "./metrics.ts";
import type { HandOver } from "./take_over.ts";

/** What a backend works with. */
export interface BackendOptions {
  readonly configuration: Configuration;
  readonly runtime: Pick<
    Runtime,
    "runner" | "pid" | "streamer" | "clock" | "hasIpv6" | "osRelease"
  >;
  readonly logger: Logger;
}

/** What the kernel and the programs of this node can do. */
export interface Probed {
  /** The version of the program that writes the rules. */
  readonly version: string;
  /** The families that no rules are written for. */
  readonly missing: MissingFamilies;
  /** What only some Services need, and is refused. */
  readonly refusedFeatures: RefusedFeatures;
  /** What is wrong, though rules can be written. */
  readonly findings: readonly Finding[];
  /** How the program was chosen, for the log; `""`: there was no choice. */
  readonly choice: string;
}

/** Where drift is reported. */
export interface DriftOptions {
  /** The state that the kernel is held to. */
  readonly desired: DesiredState;
  /** Called with what another program has changed. */
  readonly onDrift: (drift: Drift) => void;
  /** Called with the reason for a full sync: the rules go by what has changed, or changes were missed. */
  readonly onChange: (reason: string) => void;
  readonly signal: AbortSignal;
}

/** Names the rule or element behind each kind of verdict; `""`: there is none. */
export interface RuleNames {
  /** Leads to the endpoints. */
  delivers(match: Match): string;
  /** Leads pods and this node to the cluster's endpoints, under the Local policy. */
  shortCircuit(match: Match): string;
  /** Rejects or drops, for want of endpoints. */
  refuses(match: Match): string;
  /** Drops sources outside of the source ranges. */
  firewall(match: Match): string;
  /** Rejects a node port on loopback that no listener serves. */
  rejectsLocalhost(match: Match): string;
  /** Rejects ports that a cluster IP does not have. */
  undefinedPort(family: Family): string;
  /** Drops addresses of the cluster IPs' range that no Service has. */
  unallocatedAddress(family: Family): string;
}

/** A step of the desired state, and the node's part after it. */
export interface DesiredStep {
  readonly change: StateChange;
  readonly node: DesiredNode;
}

/** Something that a clean-up has removed, or would remove. */
export interface Removal {
  /** Says what was removed, for the log. */
  readonly message: string;
  readonly details: LogFields;
  /** The script that removes it, headed by its program. */
  readonly script: string;
}

/** What is cleaned up, and how. */
export interface CleanupOptions {
  /** kube-proxy's rules, too. */
  readonly kubeProxy: boolean;
  /** Only look. */
  readonly dryRun: boolean;
  readonly removed: (removal: Removal) => Promise<void>;
}

/** The rules of other proxies on this node, and taking over from them. */
export type ForeignRules = Pick<
  HandOver,
  | "isServed"
  | "findProxy"
  | "finish"
  | "check"
  | "follow"
  | "ipvs"
  | "reportTo"
  | "rival"
>;

/** A mode: how desired state becomes rules of this kernel, and what there is to know of them. */
export interface Backend<S extends Script = Script> extends Dataplane<S> {
  readonly traits: ModeTraits;
  /** Metrics that only this mode has. */
  readonly metrics: BackendMetrics;
  /** What frontends have counted. */
  readonly connections: ConnectionCounters;
  readonly foreignRules: ForeignRules;
  /**
   * Asks the kernel whether it can carry the rules; writes nothing.
   *
   * @throws {ApplyError} that says what is missing
   */
  probe(): Promise<Probed>;
  /**
   * A script that puts back what `watchDrift` has noticed, and only what differs from the state that
   * was applied last; `undefined`: everything has to be written. No script may be under way. Never
   * rejects with an `ApplyError`.
   */
  repair(applied: DesiredState): Promise<S | undefined>;
  /** Notices changes by others, until the signal aborts. */
  watchDrift(options: DriftOptions): Promise<void>;
  /**
   * Reads what the kernel holds of us.
   *
   * @throws {ApplyError} where it cannot be read
   */
  read(): Promise<KernelRules>;
  /**
   * Reads what the kernel holds of some service ports. Absent: `read` is as fast.
   *
   * @throws {ApplyError} where it cannot be read
   */
  readPorts?(about: PortsOfNode): Promise<PortRules>;
  /**
   * Reads the rules of other programs that ours depend on.
   *
   * @throws {ApplyError} if they cannot be read
   */
  readRuleset(): Promise<RulesetFacts>;
  /** What the rules that decide about packets are called. */
  describe(node: DesiredNode): RuleNames;
  /** Begins with a state, and gives the changes of the steps that follow, deletions first. */
  changesFrom(state: DesiredState): (step: DesiredStep) => Change[];
  /**
   * Removes our rules, those of kube-proxy if asked.
   *
   * @returns what failed; where a program is not installed, it has no rules
   */
  cleanup(options: CleanupOptions): Promise<ApplyError[]>;
}
