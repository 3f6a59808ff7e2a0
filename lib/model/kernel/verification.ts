/**
 * What `signpost verify` says: the desired state against the kernel.
 *
 * @module
 */
import type { Mode } from "../configuration.ts";
import type { ObjectsOrigin } from "../status.ts";
import type { DesiredServicePort } from "./desired.ts";

/** Version of the report; it grows when a field goes or changes its meaning. */
export const VERIFY_VERSION = 1;

/** One difference between what the kernel should hold and what it holds. */
export interface Difference {
  readonly type: "missing" | "extra" | "wrong";
  /** The set, map, chain or table: `services4`, `chain services`, `iptables nat KUBE-SERVICES`. */
  readonly in: string;
  /** The key of the element, or the rule; `""`: the set, map, chain or table itself. */
  readonly key: string;
  /** What should be there; `""`: nothing, or what has no value but its key. */
  readonly desired: string;
  /** What is there. */
  readonly held: string;
}

/** A difference, and whom it concerns. */
export interface ServiceDifference extends Difference {
  /** `namespace/name:port`; `""`: all, or none that is known. */
  readonly service: string;
}

/** A Service whose last good rules the daemon keeps. */
export interface HeldBack {
  /** `namespace/name`. */
  readonly service: string;
  /** Why its present state is not taken. */
  readonly reason: string;
}

/** The same with its ports as they are in force. */
export interface HeldBackPorts extends HeldBack {
  readonly ports: readonly DesiredServicePort[];
}

/** What became of `--fix`. */
export interface FixOutcome {
  /**
   * `unneeded`: nothing differed. `fixed`: the daemon made a full sync, and the kernel holds what it
   * should. `differs`: it did, and the kernel still does not. `failed`: no daemon answered, or it did
   * not get to it.
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
  /** Whether the kernel holds the desired state, and no other proxy's rules. */
  readonly same: boolean;
  /** Services and service ports of the desired state. */
  readonly services: number;
  readonly servicePorts: number;
  /** Elements and rules of the desired state. */
  readonly compared: number;
  /** By set, map or chain, then by key; after `--fix`: what was there before. */
  readonly differences: readonly ServiceDifference[];
  /**
   * What changes just now: the kernel changed between two looks, or the daemon has not read the node's
   * addresses since one came or went.
   */
  readonly inFlight: readonly ServiceDifference[];
  /** Services whose last good rules the daemon keeps: these are the desired ones. */
  readonly heldBack: readonly HeldBack[];
  /** Rules of other proxies, in words. */
  readonly otherProxies: readonly string[];
  /** `null`: without `--fix`. */
  readonly fix: FixOutcome | null;
  readonly objects: ObjectsOrigin;
}
