/**
 * Decodes and encodes Nodes (core/v1 Node) and ServiceCIDRs (networking.k8s.io/v1 ServiceCIDR).
 *
 * @module
 */
import type { Node, ServiceCIDR } from "../../model/cluster/objects.ts";
import type { Raw } from "./fields.ts";
import {
  type DecodeContext,
  type Metadata,
  type Omissions,
  readAddress,
  readArray,
  readCidr,
  readEntries,
  readObject,
  readOrOmit,
  readPlace,
  readString,
} from "./read.ts";
import type { NODE, SERVICE_CIDR } from "./tables.ts";
import { complete, type Encoded, listOf } from "./write.ts";

/** The taint of a Node that the cluster autoscaler is about to remove. */
const AUTOSCALER_TAINT = "ToBeDeletedByClusterAutoscaler";

/** The label that names a Node's zone. */
const ZONE_LABEL = "topology.kubernetes.io/zone";

/**
 * Decodes a Node. Unusable list entries and an unusable zone are left out.
 *
 * @throws {MalformedError} if the Node cannot be used
 */
export function decodeNode(
  raw: Raw<typeof NODE>,
  metadata: Metadata,
  { omissions }: DecodeContext,
): Node {
  const spec = readObject(raw.spec, "spec");
  const zone = metadata.labels[ZONE_LABEL];
  const taints = readEntries(spec.taints, "spec.taints", {
    omissions,
    read: (taint, path) => readString(readObject(taint, path).key, `${path}.key`),
  });
  return {
    name: metadata.name,
    uid: readString(metadata.raw.uid, "metadata.uid"),
    addresses: readNodeAddresses(readObject(raw.status, "status"), omissions),
    podCIDRs: readPodCIDRs(spec, omissions),
    zone: readOrOmit(
      () => readPlace(zone, `metadata.labels["${ZONE_LABEL}"]`),
      omissions,
    ) ?? "",
    deleting: Boolean(metadata.raw.deletionTimestamp) || taints.includes(AUTOSCALER_TAINT),
  };
}

/**
 * Decodes a ServiceCIDR. Unusable ranges are left out.
 *
 * @throws {MalformedError} if the ServiceCIDR cannot be used
 */
export function decodeServiceCIDR(
  raw: Raw<typeof SERVICE_CIDR>,
  metadata: Metadata,
  { omissions }: DecodeContext,
): ServiceCIDR {
  const spec = readObject(raw.spec, "spec");
  return {
    name: metadata.name,
    cidrs: readEntries(spec.cidrs, "spec.cidrs", { omissions, read: readCidr }),
  };
}

const ADDRESS_TYPES: readonly unknown[] = ["InternalIP", "ExternalIP"];

/** Returns internal, then external addresses, in kube-proxy's order. */
function readNodeAddresses(
  status: Raw<(typeof NODE)["status"]["value"]>,
  omissions: Omissions,
): readonly string[] {
  const entries = readEntries(status.addresses, "status.addresses", {
    omissions,
    read: (value, path) => {
      const { type, address } = readObject(value, path);
      return ADDRESS_TYPES.includes(type)
        ? [{ type, address: readAddress(address, `${path}.address`) }]
        : [];
    },
  }).flat();
  const ofType = (wanted: unknown) =>
    entries.filter(({ type }) => type === wanted).map(({ address }) => address);
  return [...new Set(ADDRESS_TYPES.flatMap(ofType))];
}

function readPodCIDRs(
  spec: Raw<(typeof NODE)["spec"]["value"]>,
  omissions: Omissions,
): readonly string[] {
  const listed = readArray(spec.podCIDRs, "spec.podCIDRs");
  if (listed.length > 0) {
    return readEntries(spec.podCIDRs, "spec.podCIDRs", { omissions, read: readCidr });
  }
  const single = spec.podCIDR;
  if (!single) return [];
  const cidr = readOrOmit(() => readCidr(single, "spec.podCIDR"), omissions);
  return cidr === undefined ? [] : [cidr];
}

/**
 * Encodes a Node as an API object that decodes to it. All addresses become internal ones, and
 * `deleting` becomes the taint.
 */
export function encodeNode(node: Node): Encoded {
  const { name, uid, addresses, podCIDRs, zone, deleting, omitted: _, ...rest } = node;
  complete(rest);
  return {
    metadata: {
      name,
      uid: uid || undefined,
      labels: zone === "" ? undefined : { [ZONE_LABEL]: zone },
    },
    spec: {
      podCIDRs: listOf(podCIDRs),
      taints: deleting ? [{ key: AUTOSCALER_TAINT, effect: "NoSchedule" }] : undefined,
    },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  };
}

/** Encodes a ServiceCIDR as an API object that decodes to it. */
export function encodeServiceCIDR({ name, cidrs, omitted: _, ...rest }: ServiceCIDR): Encoded {
  complete(rest);
  return { metadata: { name }, spec: { cidrs } };
}
