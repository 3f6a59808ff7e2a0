/**
 * The properties of a mode that settings, policy and messages depend on.
 *
 * @module
 */
import type { Mode, ModeSections } from "../configuration.ts";
import type { RefusedFeatures } from "./features.ts";

/** The properties of a mode. */
export interface ModeTraits {
  /** The value of the setting `mode`. */
  readonly name: Mode;
  /** The section of the configuration for this mode. */
  readonly section: keyof ModeSections;
  /** True if node ports answer on the Node's primary addresses only, without `nodePortAddresses`. */
  readonly primaryNodePorts: boolean;
  /** The server of node ports on loopback: rules for 127.0.0.1, or user-space listeners for ::1 too. */
  readonly localhostNodePorts: "rules" | "listeners";
  /** True if packets to unused cluster IPs are rejected or dropped. */
  readonly guardsClusterIPs: boolean;
  /** Service features that this mode lacks on any kernel. */
  readonly refuses: RefusedFeatures;
  /** The cost, in elements, of one partial sync while other Services wait; absent if unbounded. */
  readonly share?: number;
  /** The word for the parts of its rules, in the plural. */
  readonly parts: string;
}
