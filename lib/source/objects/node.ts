/** Decodes Nodes (core/v1 Node) and ServiceCIDRs (networking.k8s.io/v1 ServiceCIDR). */
import type { Node, ServiceCIDR } from "../../model/cluster/objects.ts";
import type { NODE, Raw, SERVICE_CIDR } from "./tables.ts";
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

/** The taint of a Node that the cluster autoscaler is about to remove. */
export const AUTOSCALER_TAINT = "ToBeDeletedByClusterAutoscaler";

export const ZONE_LABEL = "topology.kubernetes.io/zone";

/** Decodes a Node. Unusable list entries and zones are left out. @throws {MalformedError} if it cannot be used */
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

/** Decodes a ServiceCIDR. Unusable ranges are left out. @throws {MalformedError} if it cannot be used */
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
        ? { type, address: readAddress(address, `${path}.address`) }
        : undefined;
    },
  });
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
