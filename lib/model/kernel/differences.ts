/** Differences between the desired state and the kernel, for `verify`, `diff` and drift. */
import type { Mode } from "../configuration.ts";
import type { ObjectsOrigin } from "../status.ts";
import type { DesiredServicePort } from "./desired.ts";

export interface Change {
  readonly change: "add" | "delete";
  readonly type: "element" | "chain" | "set" | "rule";
  readonly in: string;
  /** The key of an element, or the rule; `""` for the chain or set itself. */
  readonly key: string;
  /** The value of the key; `""` in sets. */
  readonly data: string;
  /** `namespace/name:port`; `""` if several or unknown. */
  readonly service: string;
}

/** Version of the report; it grows when a field goes or changes its meaning. */
export const VERIFY_VERSION = 1;

export interface Difference {
  readonly type: "missing" | "extra" | "wrong";
  /** The set, map, chain or table: `services4`, `chain services`, `iptables nat KUBE-SERVICES`. */
  readonly in: string;
  /** The key of the element, or the rule; `""` for the set, map, chain or table itself. */
  readonly key: string;
  /** The desired value; `""` if nothing is desired, or there is no value but the key. */
  readonly desired: string;
  readonly held: string;
}

export interface ServiceDifference extends Difference {
  /** `namespace/name:port`; `""` if all, or none that is known. */
  readonly service: string;
}

/** A Service whose last good rules the daemon keeps. */
interface HeldBack {
  readonly service: string;
  /** The reason why its present state is not used. */
  readonly reason: string;
}

export interface HeldBackPorts extends HeldBack {
  readonly ports: readonly DesiredServicePort[];
}

export interface FixOutcome {
  /** `differs`: the kernel differs even after a full sync. `failed`: no daemon answered, or it made no sync. */
  readonly result: "unneeded" | "fixed" | "differs" | "failed";
  readonly message: string;
}

/** Everything that `signpost verify -o json` prints. */
export interface Verification {
  readonly verifyVersion: typeof VERIFY_VERSION;
  readonly node: string;
  readonly mode: Mode;
  /** True if the kernel holds the desired state, and no other proxy's rules. */
  readonly same: boolean;
  readonly services: number;
  readonly servicePorts: number;
  /** The number of elements and rules in the desired state. */
  readonly compared: number;
  /** By set, map or chain, then by key. With `--fix`, the differences before it. */
  readonly differences: readonly ServiceDifference[];
  /** Differences in progress: the kernel changed between two reads, or new node addresses are not read yet. */
  readonly inFlight: readonly ServiceDifference[];
  /** Services whose last good rules the daemon keeps: these are the desired ones. */
  readonly heldBack: readonly HeldBack[];
  readonly otherProxies: readonly string[];
  /** `null` without `--fix`. */
  readonly fix: FixOutcome | null;
  readonly objects: ObjectsOrigin;
}
