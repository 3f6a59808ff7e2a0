/**
 * Every kind of node finding. `docs/` lists this table.
 *
 * @module
 */

import type { Severity } from "../model/finding.ts";

/** One kind of finding, as the docs list it. */
export interface FindingKind {
  readonly severity: Severity;
  /** Says what is wrong, as one sentence. */
  readonly summary: string;
  /** Says what to do, with the line to type if there is one. */
  readonly remedy: string;
}

/** The kinds by their id. An id is stable: metrics and alert rules name it. */
export const CATALOG = {
  "node-address-unknown": {
    severity: "warning",
    summary: "No address of this node is known, so node ports answer on all its addresses.",
    remedy:
      "Check that a Node of this name exists (--hostname-override), or set nodePortAddresses (--nodeport-addresses).",
  },
  "node-unknown": {
    severity: "warning",
    summary: "No Node of this node's name exists, so its zone and addresses are not known.",
    remedy: "Set --hostname-override to the Node's name.",
  },
  "node-address-elsewhere": {
    severity: "warning",
    summary: "No interface of this node has an address of its Node, so node ports may not answer.",
    remedy:
      "If this is not the machine of that Node, set --hostname-override. Behind 1:1 NAT, set nodePortAddresses (--nodeport-addresses) to the addresses of the interfaces.",
  },
  "node-ports-on-all-addresses": {
    severity: "info",
    summary: "Node ports answer on all addresses of this node.",
    remedy:
      "nodePortAddresses: [primary] (--nodeport-addresses=primary) opens the Node's own address alone.",
  },
  "node-ports-of-one-family": {
    severity: "warning",
    summary:
      "nodePortAddresses has ranges of one IP family, so the other family is open on all addresses.",
    remedy: "Add a range of the other family to nodePortAddresses (--nodeport-addresses).",
  },
  "setting-of-other-family": {
    severity: "warning",
    summary: "A setting has only addresses of the IP family that this node does not have first.",
    remedy: "Give the setting an address or range of the node's first IP family.",
  },
  "pod-detection-of-other-family": {
    severity: "warning",
    summary:
      "The ranges by which pods are detected are not of this node's IP family, so no pod is detected. kube-proxy refuses to start.",
    remedy:
      "Set clusterCIDR (--cluster-cidr) to the ranges of all pods, in the node's IP family first.",
  },
  "pod-outside-detected-range": {
    severity: "warning",
    summary:
      "A pod of this node has an address outside the range by which pods are detected, so its traffic is handled like traffic from outside.",
    remedy: "Set clusterCIDR (--cluster-cidr) to the range of all pods.",
  },
  "hash-without-liberal-conntrack": {
    severity: "warning",
    summary:
      "A Service with external addresses is spread by a hash: connections that routers move between nodes and back become invalid.",
    remedy:
      "Set conntrack.tcpBeLiberal (--conntrack-tcp-be-liberal) if routers move TCP connections.",
  },
} as const satisfies Record<string, FindingKind>;

/** The id of a kind of finding. */
export type FindingId = keyof typeof CATALOG;
