/**
 * What of a mode decides about settings, policy and words.
 *
 * @module
 */
import type { Mode, ModeSections } from "../configuration.ts";
import type { RefusedFeatures } from "./features.ts";

/** The facts of a mode. */
export interface ModeTraits {
  /** As the setting `mode` has it. */
  readonly name: Mode;
  /** The section of the configuration that holds in this mode. */
  readonly section: keyof ModeSections;
  /** Where `nodePortAddresses` is not set, node ports answer on the Node's primary addresses only. */
  readonly primaryNodePorts: boolean;
  /** What can serve node ports on loopback: the rules on 127.0.0.1, or listeners in user space on ::1, too. */
  readonly localhostNodePorts: "rules" | "listeners";
  /** Packets to cluster IPs that are for no Service are rejected or dropped. */
  readonly guardsClusterIPs: boolean;
  /** What Services may ask for and this mode cannot do, on any kernel. */
  readonly refuses: RefusedFeatures;
  /** The cost that one partial sync writes while other Services wait, in elements; absent: no bound. */
  readonly share?: number;
  /** What the rules are made of, in the plural. */
  readonly parts: string;
}
