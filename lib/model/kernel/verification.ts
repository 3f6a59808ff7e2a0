/**
 * The report of `signpost verify`: the desired state compared with the kernel.
 *
 * @module
 */
import type { Mode } from "../configuration.ts";
import type { ObjectsOrigin } from "../status.ts";
import type { DesiredServicePort } from "./desired.ts";

/** Version of the report; it grows when a field goes or changes its meaning. */
export const VERIFY_VERSION = 1;

/** One difference between the desired state and the kernel. */
export interface Difference {
  readonly type: "missing" | "extra" | "wrong";
  /** The set, map, chain or table: `services4`, `chain services`, `iptables nat KUBE-SERVICES`. */
  readonly in: string;
  /** The key of the element, or the rule; `""` for the set, map, chain or table itself. */
  readonly key: string;
  /** The desired value; `""` if nothing is desired, or there is no value but the key. */
  readonly desired: string;
  /** The value in the kernel. */
  readonly held: string;
}

/** A difference with the service port that it affects. */
export interface ServiceDifference extends Difference {
  /** `namespace/name:port`; `""` if all, or none that is known. */
  readonly service: string;
}

/** A Service whose last good rules the daemon keeps. */
export interface HeldBack {
  /** `namespace/name`. */
  readonly service: string;
  /** The reason why its present state is not used. */
  readonly reason: string;
}

/** The same with its ports as they are in force. */
export interface HeldBackPorts extends HeldBack {
  readonly ports: readonly DesiredServicePort[];
}

/** The result of `--fix`. */
export interface FixOutcome {
  /**
   * `unneeded`: no difference. `fixed`: after the daemon's full sync the kernel holds the desired
   * state. `differs`: after a full sync the kernel still differs. `failed`: no daemon answered, or
   * it made no sync.
   */
  readonly result: "unneeded" | "fixed" | "differs" | "failed";
  /** One line for people. */
  readonly message: string;
}

/** Everything that `signpost verify -o json` prints. */
export interface Verification {
  readonly verifyVersion: typeof VERIFY_VERSION;
  readonly node: string;
  readonly mode: Mode;
  /** True if the kernel holds the desired state, and no other proxy's rules. */
  readonly same: boolean;
  /** The number of Services and service ports in the desired state. */
  readonly services: number;
  readonly servicePorts: number;
  /** The number of elements and rules in the desired state. */
  readonly compared: number;
  /** By set, map or chain, then by key. With `--fix`, the differences before it. */
  readonly differences: readonly ServiceDifference[];
  /**
   * Differences in progress: the kernel changed between two reads, or the daemon has not read new
   * node addresses yet.
   */
  readonly inFlight: readonly ServiceDifference[];
  /** Services whose last good rules the daemon keeps: these are the desired ones. */
  readonly heldBack: readonly HeldBack[];
  /** Rules of other proxies, in words. */
  readonly otherProxies: readonly string[];
  /** `null` without `--fix`. */
  readonly fix: FixOutcome | null;
  readonly objects: ObjectsOrigin;
}
