/**
 * Decodes Nodes (core/v1 Node) and ServiceCIDRs (networking.k8s.io/v1 ServiceCIDR).
 *
 * @module
 */
import type { Node, ServiceCIDR } from "../../model/objects.ts";
import {
  type Json,
  type Metadata,
  readAddress,
  readArray,
  readCidr,
  readObject,
  readString,
} from "./read.ts";

const AUTOSCALER_TAINT = "ToBeDeletedByClusterAutoscaler";

/**
 * Decodes a Node.
 *
 * @throws {MalformedError} where a field cannot be used
 */
export function decodeNode(raw: Json, metadata: Metadata): Node {
  const spec = readObject(raw["spec"], "spec");
  const taints = readArray(spec["taints"], "spec.taints")
    .map((taint, i) => readObject(taint, `spec.taints[${i}]`)["key"]);
  return {
    name: metadata.name,
    uid: readString(metadata.raw["uid"], "metadata.uid"),
    addresses: readNodeAddresses(readObject(raw["status"], "status")),
    podCIDRs: readPodCIDRs(spec),
    zone: readString(
      metadata.labels["topology.kubernetes.io/zone"],
      'metadata.labels["topology.kubernetes.io/zone"]',
    ),
    deleting: Boolean(metadata.raw["deletionTimestamp"]) || taints.includes(AUTOSCALER_TAINT),
  };
}

/**
 * Decodes a ServiceCIDR.
 *
 * @throws {MalformedError} where a field cannot be used
 */
export function decodeServiceCIDR(raw: Json, metadata: Metadata): ServiceCIDR {
  const spec = readObject(raw["spec"], "spec");
  return {
    name: metadata.name,
    cidrs: readArray(spec["cidrs"], "spec.cidrs").map((each, i) =>
      readCidr(each, `spec.cidrs[${i}]`)
    ),
  };
}

/** Internal addresses, then external ones: the order in which kube-proxy looks for the node's own. */
function readNodeAddresses(status: Json): string[] {
  const entries = readArray(status["addresses"], "status.addresses")
    .map((entry, i) => ({
      path: `status.addresses[${i}]`,
      entry: readObject(entry, `status.addresses[${i}]`),
    }));
  const ofType = (type: string) =>
    entries.filter(({ entry }) => entry["type"] === type)
      .map(({ entry, path }) => readAddress(entry["address"], `${path}.address`));
  return [...new Set([...ofType("InternalIP"), ...ofType("ExternalIP")])];
}

function readPodCIDRs(spec: Json): string[] {
  const listed = readArray(spec["podCIDRs"], "spec.podCIDRs");
  if (listed.length > 0) return listed.map((each, i) => readCidr(each, `spec.podCIDRs[${i}]`));
  return spec["podCIDR"] ? [readCidr(spec["podCIDR"], "spec.podCIDR")] : [];
}
