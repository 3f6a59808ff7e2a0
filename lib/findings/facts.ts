/** Declares the facts that checks read: plain values, gathered by the daemon or by `check`. */
import type { Configuration } from "../config/configuration.ts";
import type { Drift } from "../model/kernel/dataplane.ts";
import type { DesiredServicePort, DesiredState } from "../model/kernel/desired.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import type { Finding } from "../model/status.ts";
import type { Node, Refusal } from "../model/cluster/objects.ts";
import type { Family } from "../model/values/address.ts";
import type { Desired } from "../policy/state.ts";

/** The known facts of a node. A part that was not read is absent, and its checks find nothing. */
export interface NodeFacts {
  readonly nodeName: string;
  /** As it was given: the mode may be empty. */
  readonly configuration: Configuration;
  /** The traits of the mode in effect. */
  readonly traits: ModeTraits;
  /** The addresses of all network interfaces, canonical. */
  readonly interfaceAddresses: readonly string[];
  /** The known addresses of the API server that this node uses. */
  readonly apiServerAddresses?: readonly string[] | undefined;
  /** Present once every list is complete. */
  readonly objects?: ObjectFacts | undefined;
  /** An object that is refused because all take too much memory. */
  readonly excess?: Refusal | undefined;
  readonly system?: SystemFacts | undefined;
  /** Absent: the objects come from manifests. */
  readonly apiServer?: {
    /** Its URL, or `kubeconfig` if that names none. */
    readonly where: string;
    /** Unsafe parts of the way there, one line each. */
    readonly warnings: readonly string[];
    /** Failed requests; empty if it was not asked. */
    readonly failures: readonly ApiFailure[];
  } | undefined;
  /** Absent if nft cannot read the rules. */
  readonly ruleset?: RulesetFacts | undefined;
  /** Another proxy that writes its rules. Absent: none was found. */
  readonly rival?: Rival | undefined;
  /** A change of our rules by another program, not repaired yet. */
  readonly drift?: Drift | undefined;
  readonly settingFailures?: readonly SettingFailure[] | undefined;
  /** Findings of other parts: the probe of programs and kernel, and ports that cannot be opened. */
  readonly found?: readonly Finding[];
}

/** A kind of objects that cannot be read. */
export interface ApiFailure {
  /** `""`: any kind. */
  readonly kind: string;
  readonly message: string;
  /** True if the server answered that the request is not allowed. */
  readonly isRefusal: boolean;
  /** True if signpost works without this kind, as before Kubernetes 1.33 without ServiceCIDRs. */
  readonly isOptional?: boolean;
  /** True if the server works, but is slow. */
  readonly isSlow?: boolean;
  /** True if the server did not answer in time. */
  readonly hasTimedOut?: boolean;
}

/** Another proxy on this node: its tables and chains, and the processes that are visible from here. */
export interface Rival {
  readonly rules: readonly string[];
  readonly processes: readonly string[];
}

/** Answers of the programs and the kernel of this node. */
export interface SystemFacts {
  /** True if another mode is set although nftables would work. */
  readonly couldUseNftables: boolean;
  /** `net.ipv4.conf.all.route_localnet`. */
  readonly routeLocalnet?: string | undefined;
  /** By family, true if the kernel forwards packets. Absent: the program `sysctl` failed. */
  readonly forwards?: Readonly<Record<Family, boolean>> | undefined;
  /** By family, true if packets between ports of a bridge pass iptables, and so connection tracking. */
  readonly filtersBridges?: Readonly<Record<Family, boolean>> | undefined;
  /** The ranges of bridges, such as `10.244.0.0/24`. */
  readonly bridges?: readonly string[] | undefined;
  /** Entries of connection tracking now and at most. */
  readonly conntrack?: { readonly entries: number; readonly max: number } | undefined;
}

/** The rules of all programs, as nft and iptables-legacy list them. */
export interface RulesetFacts {
  /** Names the tables on which nft crashes. Absent: nft reads all tables. */
  readonly unreadable?: Finding | undefined;
  /** The chains of other programs. */
  readonly chains: readonly ForeignChain[];
  /** The main routing table of both families. */
  readonly routes: readonly Route[];
}

export interface Route {
  readonly cidr: string;
  readonly device: string;
}

/** A chain of another program. */
export interface ForeignChain {
  /** Such as `ip filter`, or `iptables-legacy filter`. */
  readonly table: string;
  readonly name: string;
  /** Absent: only rules of other chains lead to it. */
  readonly hook?: {
    readonly type: string;
    readonly hook: string;
    readonly priority: number;
    readonly policy: string;
    /** The interfaces of a hook of the family `netdev`; empty: all. */
    readonly devices: readonly string[];
  } | undefined;
  /** As nft prints them. */
  readonly rules: readonly string[];
}

/** The objects, and the state that follows from them. */
export interface ObjectFacts {
  /** `undefined`: no Node of this name exists. */
  readonly node: Node | undefined;
  readonly desired: DesiredState & Pick<Desired, "healthChecks">;
}

/** A kernel setting that could not be changed. */
export interface SettingFailure {
  /** As sysctl(8) names it. */
  readonly name: string;
  /** The wanted value. */
  readonly value: number;
  /** The system's error. */
  readonly reason: string;
}

/** Calls `look` for each service port, until it returns true. @yields when other work can run */
export function* eachPort(
  { services }: DesiredState,
  look: (port: DesiredServicePort) => boolean,
): Generator<undefined, void> {
  for (const ports of services.values()) {
    for (const port of ports) {
      if (look(port)) return;
      yield;
    }
  }
}
