/**
 * What the kernel holds of us, readable in the same way in every mode.
 *
 * @module
 */
import type { KernelChanges } from "../model/kernel/change.ts";
import type { DesiredNode, DesiredServicePort, DesiredState } from "../model/kernel/desired.ts";
import type { ServiceDifference } from "../model/kernel/verification.ts";

/** One thing of a Service in the kernel, an element, rule, chain or set: what it should be beside what it is. */
export interface KernelEntry {
  /** The set, map or chain. */
  readonly in: string;
  /** The key of the element, or the rule; `""`: the chain or set itself. */
  readonly key: string;
  /** What it should be; `""` where the key says all, or nothing should be there. */
  readonly desired: string;
  /** What it is. */
  readonly held: string;
  readonly state: "same" | "missing" | "extra" | "wrong";
}

/** A client that stays on its endpoint. */
export interface StickyClient {
  readonly servicePort: string;
  readonly client: string;
  readonly address: string;
  readonly port: number;
  /** Seconds until it is forgotten. */
  readonly expiresSeconds: number;
}

/** The kernel beside the desired state. */
export interface Comparison {
  readonly differences: readonly ServiceDifference[];
  /** Elements and rules of the desired state. */
  readonly compared: number;
}

/** The kernel's rules as they were when they were read. */
export interface KernelRules {
  /** There are none of ours. */
  readonly isEmpty: boolean;
  /** What these ports should have, and what there is; entries that differ first. */
  entries(ports: readonly DesiredServicePort[], node: DesiredNode): KernelEntry[];
  /** The clients that session affinity keeps on endpoints, where the kernel tells of them. */
  stickyClients(ports: readonly DesiredServicePort[]): StickyClient[];
  /** Everything that differs from a state. */
  compare(state: DesiredState): Comparison;
  /** The step to the rules of some Services; those of other Services stay. */
  changesTo(state: DesiredState): KernelChanges;
}

/** The rules of some service ports. */
export type PortRules = Pick<KernelRules, "isEmpty" | "entries" | "stickyClients">;

/** Some service ports, and the node that they are for. */
export interface PortsOfNode {
  readonly ports: readonly DesiredServicePort[];
  readonly node: DesiredNode;
}
