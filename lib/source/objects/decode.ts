/** Decodes API objects from JSON into the model, or returns the reason to refuse one (kubernetes.io/docs/reference). */
import {
  type Decoder,
  type Endpoint,
  type EndpointPort,
  type EndpointSlice,
  type Kind,
  type KindMap,
  type Node,
  type ObjectChange,
  type Service,
  SERVICE_TYPES,
  type ServiceCIDR,
  type ServicePort,
} from "../../model/cluster/objects.ts";
import { nodePortKey, objectKey } from "../../model/cluster/names.ts";
import { show } from "../../model/values/text.ts";
import { fieldAt, isRecord } from "../../model/values/record.ts";
import { type DecodeContext, MalformedError, Omissions, Raw } from "./read.ts";
import { FAMILIES, type Family, familyOf, isUsableAddress } from "../../model/values/address.ts";
import { HASH_SOURCES, SCHEDULERS } from "../../model/cluster/scheduler.ts";
import { compact } from "../../model/values/lists.ts";
import {
  ACCELERATION_ANNOTATION,
  AUTOSCALER_TAINT,
  CHANGE_TRIGGER,
  HASH_ANNOTATION,
  HEADLESS,
  MOST,
  SCHEDULER_ANNOTATION,
  SERVICE_NAME,
  SERVICE_PROXY_NAME,
  ZONE_LABEL,
} from "./tables.ts";

const DECODERS: {
  readonly [K in Kind]: (raw: Raw, context: DecodeContext) => KindMap[K] | undefined;
} = {
  Service: decodeService,
  EndpointSlice: decodeEndpointSlice,
  Node: decodeNode,
  ServiceCIDR: decodeServiceCIDR,
};

const NAMESPACED: ReadonlySet<Kind> = new Set<Kind>(["Service", "EndpointSlice"]);

/** The most values in a table. A full table is emptied, so that churn cannot grow it. */
const MAX_SHARED = 50_000;

/** Returns a function that returns the first value given for a text. */
function sharedValues<V>(): <T extends V>(text: string, value: T) => T {
  const values = new Map<string, V>();
  return <T extends V>(text: string, value: T) => {
    const known = values.get(text);
    if (known !== undefined) return known as T;
    if (values.size >= MAX_SHARED) values.clear();
    values.set(text, value);
    return value;
  };
}

/** The object would exceed a bound of memory. */
class ExcessError extends MalformedError {}

export function createDecoder(): Decoder {
  const strings = sharedValues<string>();
  const intern = (text: string) => strings(text, text);
  const lists = sharedValues<readonly EndpointPort[]>();
  // Names never have blanks or commas, so the text is unique.
  const sharePorts: DecodeContext["sharePorts"] = (ports) =>
    lists(ports.map((port) => Object.values(port).join(" ")).join(), ports);
  const decode = (kind: Kind, value: unknown, excess?: Parameters<Decoder>[2]): ObjectChange => {
    let key: string | undefined;
    const omissions = new Omissions();
    const raw = new Raw(value, { name: kind, omissions });
    try {
      const metadata = raw.at("metadata");
      const given = metadata.at("namespace");
      const namespace = !NAMESPACED.has(kind) ? "" : given.isAbsent ? "default" : given.name();
      const name = metadata.at("name").name();
      key = namespace === "" ? name : objectKey({ namespace, name });
      const names = { namespace: intern(namespace), name };
      const reserve = (size: number) => {
        const reason = excess?.(key ?? "", size) ?? "";
        if (reason !== "") throw new ExcessError(reason);
      };
      const decoded = DECODERS[kind](raw, { ...names, intern, sharePorts, reserve });
      if (decoded === undefined) return { type: "delete", kind, key };
      const omitted = omissions.lines;
      const object = omitted ? { ...decoded, omitted } : decoded;
      return { type: "upsert", kind, key, object } as ObjectChange;
    } catch (error) {
      if (!(error instanceof MalformedError)) throw error;
      if (error instanceof ExcessError && key !== undefined) {
        return { type: "refuse", kind, key, reason: error.message, isExcess: true };
      }
      key ??= show(fieldAt(value, "metadata", "name") ?? "(no name)");
      // A list may be empty because its entries were left out.
      const reason = [error.message, ...omissions.lines ?? []].join("; ");
      return { type: "refuse", kind, key, reason };
    }
  };
  return decode as Decoder;
}

/** The API server's default for `sessionAffinityConfig.clientIP.timeoutSeconds`. */
const DEFAULT_AFFINITY_SECONDS = 10_800;
const MAX_AFFINITY_SECONDS = 86_400;

const POLICIES = ["Cluster", "Local"] as const;

/**
 * Decodes a Service. Unusable list entries are left out. @throws {MalformedError} if it cannot be used
 * @returns `undefined` for a Service without rules: headless, ExternalName, without a cluster IP, or of another proxy
 */
function decodeService(raw: Raw, context: DecodeContext): Service | undefined {
  const metadata = raw.at("metadata");
  const spec = raw.at("spec");
  const type = spec.at("type").text();
  const clusterIP = spec.at("clusterIP").text();
  const otherProxy = metadata.at("labels").at(SERVICE_PROXY_NAME).value !== undefined;
  if (otherProxy || type === "ExternalName" || clusterIP === "" || clusterIP === "None") {
    return undefined;
  }

  const externalIPs = spec.at("externalIPs").entries(readUsableAddress);
  const external = type === "LoadBalancer" || type === "NodePort" || externalIPs.length > 0;
  const externalTrafficPolicy = external
    ? spec.at("externalTrafficPolicy").choice(POLICIES)
    : "Cluster";
  const needsHealthCheck = type === "LoadBalancer" && externalTrafficPolicy === "Local";
  const loadBalancerIPs = readLoadBalancerIPs(raw.at("status"));
  return {
    namespace: context.namespace,
    name: context.name,
    uid: metadata.at("uid").text(),
    created: metadata.at("creationTimestamp").time(),
    type: SERVICE_TYPES.find((each) => each === type) ?? SERVICE_TYPES[0],
    hasSelector: hasEntries(spec.at("selector").value),
    clusterIPs: readClusterIPs(spec),
    externalIPs: compact([...new Set(externalIPs)]),
    loadBalancerIPs,
    ...isProxied(raw.at("status")) && { isProxiedByBalancer: true },
    sourceRanges: readSourceRanges(spec.at("loadBalancerSourceRanges"), loadBalancerIPs),
    ports: readPorts(spec.at("ports"), context),
    internalTrafficPolicy: spec.at("internalTrafficPolicy").choice(POLICIES),
    externalTrafficPolicy,
    affinitySeconds: readAffinitySeconds(spec),
    healthCheckNodePort: needsHealthCheck ? spec.at("healthCheckNodePort").optionalPort() : 0,
    ...readAnnotations(metadata.at("annotations")),
  };
}

/** Reads the annotations. A misspelt value is left out, so that the configuration applies. */
function readAnnotations(annotations: Raw): Pick<Service, "scheduler" | "acceleration"> {
  const read = <T extends string>(name: string, choices: readonly T[]) =>
    annotations.at(name).orOmit((value) => value.choice<T | "">(["", ...choices])) ?? "";
  const name = read(SCHEDULER_ANNOTATION, SCHEDULERS);
  const hash = read(HASH_ANNOTATION, HASH_SOURCES);
  const acceleration = read(ACCELERATION_ANNOTATION, ["on", "off"]);
  return {
    ...(name || hash) && { scheduler: { name, hash } },
    ...acceleration && { acceleration },
  };
}

function hasEntries(map: unknown): boolean {
  return isRecord(map) && Object.keys(map).length > 0;
}

function readUsableAddress(raw: Raw): string {
  const address = raw.address();
  if (isUsableAddress(address)) return address;
  throw raw.malformed(
    "must not be a loopback, link-local, unspecified, multicast or broadcast address",
  );
}

function readClusterIPs(spec: Raw): readonly string[] {
  const listed = spec.at("clusterIPs");
  if (listed.list().length === 0) return [readUsableAddress(spec.at("clusterIP"))];
  const families = new Set<Family>();
  const addresses = listed.entries((each) => {
    const address = readUsableAddress(each);
    const family = familyOf(address);
    if (families.has(family)) throw each.malformed("must be the only address of its family");
    families.add(family);
    return address;
  });
  if (addresses.length === 0) throw listed.malformed("must hold a usable address");
  return addresses;
}

/** Reads the addresses whose packets the load balancer does not rewrite (KEP-1860: `ipMode` is not `Proxy`). */
function readLoadBalancerIPs(status: Raw): readonly string[] {
  const addresses = status.at("loadBalancer").at("ingress").entries((entry) => {
    const ip = entry.at("ip");
    return !ip.value || entry.at("ipMode").text() === "Proxy" ? undefined : readUsableAddress(ip);
  });
  return compact([...new Set(addresses)]);
}

/** Returns true if the load balancer replaces its own address in each packet to a node. */
function isProxied(status: Raw): boolean {
  const ingress = status.at("loadBalancer").at("ingress").list();
  return ingress.length > 0 && ingress.every((each) => fieldAt(each, "ipMode") === "Proxy");
}

/** Reads usable source ranges. Without any, the Service is refused: an empty list would accept every source. */
function readSourceRanges(raw: Raw, loadBalancerIPs: readonly string[]): readonly string[] {
  const listed = raw.list();
  const ranges = raw.entries((each) => each.cidr());
  const isBlank = (range: unknown) => typeof range === "string" && range.trim() === "";
  if (ranges.length === 0 && !listed.every(isBlank)) {
    throw raw.malformed("must hold a readable CIDR, or every source would have access");
  }
  for (const family of listed.length === 0 ? [] : FAMILIES) {
    const ip = loadBalancerIPs.find((each) => familyOf(each) === family);
    if (ip === undefined || ranges.some((range) => familyOf(range) === family)) continue;
    raw.note(`must hold a range of IPv${family}, or every source reaches ${ip}`);
  }
  return ranges;
}

function readPorts(raw: Raw, { intern, sharePorts }: DecodeContext): readonly ServicePort[] {
  const taken = new Set<string>();
  const ports = raw.entries((entry): ServicePort => {
    const port: ServicePort = {
      name: intern(entry.at("name").optionalName()),
      protocol: entry.at("protocol").protocol(),
      port: entry.at("port").port(),
      nodePort: entry.at("nodePort").optionalPort(),
    };
    const { protocol, nodePort } = port;
    // The values, by field, that two ports of a Service must not share.
    const owned = {
      name: `name ${port.name}`,
      port: `port ${nodePortKey(protocol, port.port)}`,
      ...nodePort !== 0 && { nodePort: `node port ${nodePortKey(protocol, nodePort)}` },
    };
    for (const [field, key] of Object.entries(owned)) {
      if (!taken.has(key)) continue;
      throw entry.at(field).malformed("must be unique", port[field as keyof ServicePort]);
    }
    for (const key of Object.values(owned)) taken.add(key);
    return port;
  });
  if (ports.length === 0) throw raw.malformed("must hold at least one usable port");
  // Node ports are unique, so a list with one does not recur.
  return ports.some(({ nodePort }) => nodePort !== 0) ? ports : sharePorts(ports);
}

function readAffinitySeconds(spec: Raw): number {
  if (spec.at("sessionAffinity").choice(["None", "ClientIP"]) === "None") return 0;
  const timeout = spec.at("sessionAffinityConfig").at("clientIP").at("timeoutSeconds");
  return timeout.isAbsent ? DEFAULT_AFFINITY_SECONDS : timeout.integer(1, MAX_AFFINITY_SECONDS);
}

type Hints = Pick<Endpoint, "zoneHints" | "nodeHints">;

const NONE: readonly string[] = compact([]);

/** Shared by all endpoints without hints. */
const NO_HINTS: Hints = { zoneHints: NONE, nodeHints: NONE };

/** An estimate of an endpoint's bytes as JSON. */
const ENDPOINT_SIZE = 120;

/**
 * Decodes an EndpointSlice. Unusable list entries and hints are left out. @throws {MalformedError} if it cannot be used
 * @returns `undefined` for a slice without rules: of host names, another proxy, a headless Service, or no Service
 */
function decodeEndpointSlice(raw: Raw, context: DecodeContext): EndpointSlice | undefined {
  const metadata = raw.at("metadata");
  const labels = metadata.at("labels");
  const serviceName = labels.at(SERVICE_NAME);
  const type = raw.at("addressType");
  const addressType = type.choice(["", "IPv4", "IPv6", "FQDN"]);
  if (addressType === "") throw type.malformed("must be IPv4 or IPv6 or FQDN", "missing");
  const isOther = [HEADLESS, SERVICE_PROXY_NAME].some((name) =>
    labels.at(name).value !== undefined
  );
  if (isOther || (serviceName.value ?? "") === "" || addressType === "FQDN") return undefined;

  const family = addressType === "IPv4" ? 4 : 6;
  const endpoints = raw.at("endpoints");
  context.reserve(ENDPOINT_SIZE * endpoints.list().length);
  return {
    namespace: context.namespace,
    name: context.name,
    serviceName: serviceName.name(),
    family,
    ports: readEndpointPorts(raw.at("ports"), context),
    endpoints: endpoints.entries(
      (each) => readEndpoint(each, family, context.intern),
      MOST.endpoints,
    ),
    lastChangeTriggerTime: metadata.at("annotations").at(CHANGE_TRIGGER).time(),
  };
}

/** Reads the ports. As in kube-proxy, a port without a number (null means every port) is left out. */
function readEndpointPorts(
  raw: Raw,
  { intern, sharePorts }: DecodeContext,
): readonly EndpointPort[] {
  return sharePorts(raw.entries((entry) => {
    const port = entry.at("port");
    if (port.isAbsent) return undefined;
    return {
      name: intern(entry.at("name").optionalName()),
      protocol: entry.at("protocol").protocol(),
      port: port.port(),
    };
  }, MOST.ports));
}

function readEndpoint(raw: Raw, family: Family, intern: DecodeContext["intern"]): Endpoint {
  const conditions = raw.at("conditions");
  const hints = raw.at("hints").orOmit((each) => readHints(each, intern)) ?? NO_HINTS;
  const nodeName = raw.at("nodeName").optionalName();
  return {
    address: readEndpointAddress(raw.at("addresses"), family),
    nodeName: nodeName === "" ? undefined : intern(nodeName),
    // As the API says, an unknown condition counts as true, except `terminating`.
    ready: conditions.at("ready").boolean(true),
    serving: conditions.at("serving").boolean(true),
    terminating: conditions.at("terminating").boolean(false),
    zoneHints: hints.zoneHints,
    nodeHints: hints.nodeHints,
  };
}

/** Returns the first address. The API says that consumers may ignore the rest. */
function readEndpointAddress(raw: Raw, family: Family): string {
  const first = raw.entry(0);
  const address = readUsableAddress(first);
  if (familyOf(address) !== family) throw first.malformed(`must be an IPv${family} address`);
  return address;
}

/** Reads the hints. A bad hint never removes the endpoint. */
function readHints(raw: Raw, intern: DecodeContext["intern"]): Hints {
  if (raw.isAbsent) return NO_HINTS;
  const readPlace = (hint: Raw) => intern(hint.at("name").topology());
  const places = (name: string) =>
    raw.at(name).orOmit((list) => list.entries(readPlace, MOST.hints)) ?? NONE;
  return { zoneHints: places("forZones"), nodeHints: places("forNodes") };
}

/** Decodes a Node. Unusable list entries and zones are left out. @throws {MalformedError} if it cannot be used */
function decodeNode(raw: Raw, { name }: DecodeContext): Node {
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
function decodeServiceCIDR(raw: Raw, { name }: DecodeContext): ServiceCIDR {
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
