/**
 * Defines the kernel's rules of signpost in a form that all modes share.
 *
 * @module
 */
import type { KernelChanges, ServiceDifference } from "../model/kernel/differences.ts";
import type { DesiredNode, DesiredServicePort, DesiredState } from "../model/kernel/desired.ts";

/** One element, rule, chain or set of a Service: the desired and the actual value. */
export interface KernelEntry {
  /** The set, map or chain. */
  readonly in: string;
  /** The key of the element, or the rule; `""` for the chain or set itself. */
  readonly key: string;
  /** The desired value; `""` if the key is enough, or nothing is desired. */
  readonly desired: string;
  /** The value in the kernel. */
  readonly held: string;
  readonly state: "same" | "missing" | "extra" | "wrong";
}

/** A client that session affinity keeps on its endpoint. */
export interface StickyClient {
  readonly servicePort: string;
  readonly client: string;
  readonly address: string;
  readonly port: number;
  /** Seconds until the kernel forgets it. */
  readonly expiresSeconds: number;
}

/** The comparison of the kernel with the desired state. */
export interface Comparison {
  readonly differences: readonly ServiceDifference[];
  /** The number of elements and rules in the desired state. */
  readonly compared: number;
}

/** The kernel's rules at the time of reading. */
export interface KernelRules {
  /** True if the kernel has no rules of signpost. */
  readonly isEmpty: boolean;
  /** Returns the desired and actual entries of these ports, differences first. */
  entries(ports: readonly DesiredServicePort[], node: DesiredNode): KernelEntry[];
  /** Returns the clients with session affinity, if the kernel lists them. */
  stickyClients(ports: readonly DesiredServicePort[]): StickyClient[];
  /** Returns all differences from a state. */
  compare(state: DesiredState): Comparison;
  /** Returns the step to the rules of some Services. Rules of other Services stay. */
  changesTo(state: DesiredState): KernelChanges;
}

/** The rules of some service ports. */
export type PortRules = Pick<KernelRules, "isEmpty" | "entries" | "stickyClients">;

/** Some service ports, with the node's part of the desired state. */
export interface PortsOfNode {
  readonly ports: readonly DesiredServicePort[];
  readonly node: DesiredNode;
}
