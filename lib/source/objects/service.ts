/** Decodes Services (Kubernetes API, core/v1 Service). */
import { FAMILIES, type Family, familyOf, isUsableAddress } from "../../model/values/address.ts";
import { HASH_SOURCES, SCHEDULERS } from "../../model/cluster/scheduler.ts";
import { nodePortKey } from "../../model/cluster/names.ts";
import { type Service, SERVICE_TYPES, type ServicePort } from "../../model/cluster/objects.ts";
import { compact } from "../../model/values/lists.ts";
import { fieldAt, isRecord } from "../../model/values/record.ts";
import {
  ACCELERATION_ANNOTATION,
  HASH_ANNOTATION,
  SCHEDULER_ANNOTATION,
  SERVICE_PROXY_NAME,
} from "./tables.ts";
import type { DecodeContext, Raw } from "./read.ts";

/** The API server's default for `sessionAffinityConfig.clientIP.timeoutSeconds`. */
const DEFAULT_AFFINITY_SECONDS = 10_800;
const MAX_AFFINITY_SECONDS = 86_400;

const POLICIES = ["Cluster", "Local"] as const;

/**
 * Decodes a Service. Unusable list entries are left out. @throws {MalformedError} if it cannot be used
 * @returns `undefined` for a Service without rules: headless, ExternalName, without a cluster IP, or of another proxy
 */
export function decodeService(raw: Raw, context: DecodeContext): Service | undefined {
  const metadata = raw.at("metadata");
  const spec = raw.at("spec");
  const type = spec.at("type").text();
  const clusterIP = spec.at("clusterIP").text();
  const otherProxy = metadata.at("labels").at(SERVICE_PROXY_NAME).value !== undefined;
  if (otherProxy || type === "ExternalName" || clusterIP === "" || clusterIP === "None") {
    return undefined;
  }

  const externalIPs = spec.at("externalIPs").entries(readVirtualIP);
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

/** Reads the annotations. A misspelt value is left out, so the configuration applies. */
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

function readVirtualIP(raw: Raw): string {
  const address = raw.address();
  if (isUsableAddress(address)) return address;
  const kinds = "loopback, link-local, unspecified, multicast or broadcast";
  throw raw.malformed(`must not be a ${kinds} address`);
}

function readClusterIPs(spec: Raw): readonly string[] {
  const listed = spec.at("clusterIPs");
  if (listed.list().length === 0) return [readVirtualIP(spec.at("clusterIP"))];
  const families = new Set<Family>();
  const addresses = listed.entries((each) => {
    const address = readVirtualIP(each);
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
    return !ip.value || entry.at("ipMode").text() === "Proxy" ? undefined : readVirtualIP(ip);
  });
  return compact([...new Set(addresses)]);
}

/** Returns true if the load balancer sends no packet with its own address to a node. */
function isProxied(status: Raw): boolean {
  const ingress = status.at("loadBalancer").at("ingress").list();
  return ingress.length > 0 && ingress.every((each) => fieldAt(each, "ipMode") === "Proxy");
}

/**
 * Reads the source ranges. As in kube-proxy, unusable ones are left out, and a family without a range accepts all its
 * sources. If none is usable, the Service is refused: an empty list would accept every source.
 */
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
    // The values, by field, that no two ports of a Service may share.
    const owned = {
      name: `name ${port.name}`,
      port: `port ${nodePortKey(protocol, port.port)}`,
      ...nodePort !== 0 && { nodePort: `node port ${nodePortKey(protocol, nodePort)}` },
    };
    for (const [field, key] of Object.entries(owned)) {
      if (!taken.has(key)) continue;
      throw entry.at(field).malformed("must be of one port only", port[field as keyof ServicePort]);
    }
    for (const key of Object.values(owned)) taken.add(key);
    return port;
  });
  if (ports.length === 0) throw raw.malformed("must hold at least one usable port");
  // No other Service has the same node port, so such a list does not recur.
  return ports.some(({ nodePort }) => nodePort !== 0) ? ports : sharePorts(ports);
}

function readAffinitySeconds(spec: Raw): number {
  if (spec.at("sessionAffinity").choice(["None", "ClientIP"]) === "None") return 0;
  const timeout = spec.at("sessionAffinityConfig").at("clientIP").at("timeoutSeconds");
  return timeout.isAbsent ? DEFAULT_AFFINITY_SECONDS : timeout.integer(1, MAX_AFFINITY_SECONDS);
}
