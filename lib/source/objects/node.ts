/** Decodes Nodes (core/v1 Node) and ServiceCIDRs (networking.k8s.io/v1 ServiceCIDR). */
import type { Node, ServiceCIDR } from "../../model/cluster/objects.ts";
import type { DecodeContext, Raw } from "./read.ts";
import { AUTOSCALER_TAINT, ZONE_LABEL } from "./tables.ts";

/** Decodes a Node. Unusable list entries and zones are left out. @throws {MalformedError} if it cannot be used */
export function decodeNode(raw: Raw, { name }: DecodeContext): Node {
  const metadata = raw.at("metadata");
  const spec = raw.at("spec");
  const taints = spec.at("taints").entries((taint) => taint.at("key").text());
  return {
    name,
    uid: metadata.at("uid").text(),
    addresses: readNodeAddresses(raw.at("status").at("addresses")),
    podCIDRs: readPodCIDRs(spec),
    zone: metadata.at("labels").at(ZONE_LABEL).orOmit((zone) => zone.topology()) ?? "",
    deleting: Boolean(metadata.at("deletionTimestamp").value) || taints.includes(AUTOSCALER_TAINT),
  };
}

/** Decodes a ServiceCIDR. Unusable ranges are left out. @throws {MalformedError} if it cannot be used */
export function decodeServiceCIDR(raw: Raw, { name }: DecodeContext): ServiceCIDR {
  return { name, cidrs: raw.at("spec").at("cidrs").entries((range) => range.cidr()) };
}

const ADDRESS_TYPES: readonly unknown[] = ["InternalIP", "ExternalIP"];

/** Returns internal, then external addresses, in kube-proxy's order. */
function readNodeAddresses(raw: Raw): readonly string[] {
  const entries = raw.entries((entry) => {
    const { value: type } = entry.at("type");
    const address = entry.at("address");
    return ADDRESS_TYPES.includes(type) ? { type, address: address.address() } : undefined;
  });
  const ofType = (wanted: unknown) =>
    entries.filter(({ type }) => type === wanted).map(({ address }) => address);
  return [...new Set(ADDRESS_TYPES.flatMap(ofType))];
}

function readPodCIDRs(spec: Raw): readonly string[] {
  const listed = spec.at("podCIDRs");
  if (listed.list().length > 0) return listed.entries((each) => each.cidr());
  const single = spec.at("podCIDR");
  const cidr = single.value ? single.orOmit((each) => each.cidr()) : undefined;
  return cidr === undefined ? [] : [cidr];
}
