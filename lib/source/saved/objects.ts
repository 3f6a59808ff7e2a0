/**
 * What an object in a state file must look like, field by field: what the decoders of API objects
 * let through, and no more. A field that the model gains must be added here to compile; then the
 * format's version goes up.
 *
 * @module
 */
import {
  canBeVirtual,
  type Family,
  familyOf,
  isSpecialAddress,
  parseAddress,
  parseCidr,
} from "../../model/address.ts";
import type {
  Endpoint,
  EndpointPort,
  EndpointSlice,
  Kind,
  KindMap,
  Omitting,
  Protocol,
  ServicePort,
  TrafficPolicy,
} from "../../model/objects.ts";
import {
  boolean,
  type Check,
  integer,
  list,
  oneOf,
  optional,
  record,
  string,
  where,
} from "./check.ts";

/** A check for each kind. */
export type KindChecks = { readonly [K in Kind]: Check<KindMap[K]> };

/** What a state file keeps of an object. */
type Kept<T extends Omitting> = Omit<T, keyof Omitting>;

/** DNS subdomain (RFC 1123). */
const NAME = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;

/** The value of a label. */
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

/** The largest time that a Date can hold (ECMA-262, Time Values and Time Range), in milliseconds. */
const MAX_TIME = 8.64e15;

/** The API server's limit for `sessionAffinityConfig.clientIP.timeoutSeconds`. */
const MAX_AFFINITY_SECONDS = 86_400;

/** A time, milliseconds since the epoch. */
export const time: Check<number> = integer(-MAX_TIME, MAX_TIME);

/** The rule for every name that signpost reads. */
const dnsName = where(
  string,
  "must be a DNS name of lower-case letters, digits, '-' and '.'",
  (text) => NAME.test(text),
);
/** A zone or a node as labels and hints name it. */
const place = where(
  string,
  "must be the value of a label",
  (text) => LABEL_VALUE.test(text) || NAME.test(text),
);
const port = integer(1, 65535);
const portOrNone = integer(0, 65535);
const protocol = oneOf<Protocol>("tcp", "udp", "sctp");
const policy = oneOf<TrafficPolicy>("Cluster", "Local");

const address = where(
  string,
  "must be an IP address in canonical form",
  (text) => parseAddress(text) === text,
);
const usableAddress = where(
  address,
  "must not be a loopback, link-local or unspecified address",
  (text) => !isSpecialAddress(text),
);
const virtualAddress = where(
  address,
  "must not be a loopback, link-local, unspecified, multicast or broadcast address",
  canBeVirtual,
);
const cidrs = list(
  where(string, "must be a CIDR in canonical form", (text) => parseCidr(text) === text),
);
const clusterIPs = where(
  list(virtualAddress),
  "must hold one address, or one of each family",
  (addresses) => addresses.length > 0 && areUnique(addresses.map(familyOf)),
);

/**
 * The checks of all kinds, with a string table of their own: names that recur, such as those of
 * nodes, are one string in memory, and are looked at only once.
 */
export function createKindChecks(): KindChecks {
  const names = new Map<string, string>();
  const name: Check<string> = (value) => {
    const known = names.get(value as string);
    if (known !== undefined) return known;
    const checked = dnsName(value);
    names.set(checked, checked);
    return checked;
  };
  const portName: Check<string> = (value) => value === "" ? "" : name(value);
  return {
    Service: record<Kept<KindMap["Service"]>>({
      namespace: name,
      name: dnsName,
      uid: string,
      created: time,
      clusterIPs,
      externalIPs: unique(virtualAddress),
      loadBalancerIPs: unique(virtualAddress),
      sourceRanges: cidrs,
      ports: servicePorts(portName),
      internalTrafficPolicy: policy,
      externalTrafficPolicy: policy,
      affinitySeconds: integer(0, MAX_AFFINITY_SECONDS),
      healthCheckNodePort: portOrNone,
    }),
    EndpointSlice: slice(name, portName),
    Node: record<Kept<KindMap["Node"]>>({
      name: dnsName,
      uid: string,
      addresses: unique(address),
      podCIDRs: cidrs,
      zone: string,
      deleting: boolean,
    }),
    ServiceCIDR: record<Kept<KindMap["ServiceCIDR"]>>({ name: dnsName, cidrs }),
  };
}

function servicePorts(name: Check<string>): Check<readonly ServicePort[]> {
  return where(
    list(record<ServicePort>({ name, protocol, port, nodePort: portOrNone })),
    "must hold at least one port, under names that differ",
    (ports) => ports.length > 0 && areUnique(ports.map((each) => each.name)),
  );
}

function slice(name: Check<string>, portName: Check<string>): Check<EndpointSlice> {
  const checked = record<Kept<EndpointSlice>>({
    namespace: name,
    name: dnsName,
    serviceName: name,
    family: oneOf<Family>(4, 6),
    ports: list(record<EndpointPort>({ name: portName, protocol, port })),
    endpoints: list(record<Endpoint>({
      address: usableAddress,
      nodeName: optional(name),
      ready: boolean,
      serving: boolean,
      terminating: boolean,
      zoneHints: list(place),
      nodeHints: list(place),
    })),
    lastChangeTriggerTime: time,
  });
  return where(
    checked,
    "must have endpoints of its own family",
    ({ family, endpoints }) => endpoints.every((each) => familyOf(each.address) === family),
  );
}

function unique(item: Check<string>): Check<readonly string[]> {
  return where(list(item), "must not name anything twice", areUnique);
}

function areUnique(values: readonly unknown[]): boolean {
  return values.length < 2 || new Set(values).size === values.length;
}
