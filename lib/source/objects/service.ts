/** Decodes Services (Kubernetes API, core/v1 Service). */
import { canBeVirtual, FAMILIES, type Family, familyOf } from "../../model/values/address.ts";
import { type AskedScheduler, HASH_SOURCES, SCHEDULERS } from "../../model/cluster/scheduler.ts";
import { nodePortKey } from "../../model/cluster/names.ts";
import type { Service, ServicePort } from "../../model/cluster/objects.ts";
import { compact } from "../../model/values/lists.ts";
import { type Raw, type SERVICE, SERVICE_PROXY_NAME } from "./tables.ts";
import {
  type DecodeContext,
  MalformedError,
  type Metadata,
  type Omissions,
  readAddress,
  readArray,
  readChoice,
  readCidr,
  readEntries,
  readInteger,
  readObject,
  readOptionalName,
  readOrOmit,
  readPort,
  readProtocol,
  readString,
  readTime,
} from "./read.ts";

/** The API server's default for `sessionAffinityConfig.clientIP.timeoutSeconds`. */
const DEFAULT_AFFINITY_SECONDS = 10_800;
const MAX_AFFINITY_SECONDS = 86_400;

type Spec = Raw<(typeof SERVICE)["spec"]["value"]>;
type Status = Raw<(typeof SERVICE)["status"]["value"]>;

/**
 * Decodes a Service. Unusable list entries are left out. @throws {MalformedError} if it cannot be used
 * @returns `undefined` for a Service without rules: headless, ExternalName, without a cluster IP, or of another proxy
 */
export function decodeService(
  raw: Raw<typeof SERVICE>,
  metadata: Metadata,
  context: DecodeContext,
): Service | undefined {
  const { intern, omissions } = context;
  const spec = readObject(raw.spec, "spec");
  const status = readObject(raw.status, "status");
  const type = readString(spec.type, "spec.type");
  const clusterIP = readString(spec.clusterIP, "spec.clusterIP");
  const otherProxy = metadata.labels[SERVICE_PROXY_NAME] !== undefined;
  if (otherProxy || type === "ExternalName" || clusterIP === "" || clusterIP === "None") {
    return undefined;
  }

  const externalIPs = readEntries(spec.externalIPs, "spec.externalIPs", {
    omissions,
    read: readVirtualIP,
  });
  const external = type === "LoadBalancer" || type === "NodePort" || externalIPs.length > 0;
  const externalTrafficPolicy = external
    ? readChoice(spec.externalTrafficPolicy, "spec.externalTrafficPolicy", ["Cluster", "Local"])
    : "Cluster";
  const needsHealthCheck = type === "LoadBalancer" && externalTrafficPolicy === "Local";
  const loadBalancerIPs = readLoadBalancerIPs(status, omissions);
  return {
    namespace: intern(metadata.namespace),
    name: metadata.name,
    uid: readString(metadata.raw.uid, "metadata.uid"),
    created: readTime(metadata.raw.creationTimestamp),
    clusterIPs: readClusterIPs(spec, clusterIP, omissions),
    externalIPs: compact([...new Set(externalIPs)]),
    loadBalancerIPs,
    sourceRanges: readSourceRanges(spec, { loadBalancerIPs, omissions }),
    ports: readPorts(spec, context),
    internalTrafficPolicy: readChoice(
      spec.internalTrafficPolicy,
      "spec.internalTrafficPolicy",
      ["Cluster", "Local"],
    ),
    externalTrafficPolicy,
    affinitySeconds: readAffinitySeconds(spec),
    healthCheckNodePort: needsHealthCheck && spec.healthCheckNodePort
      ? readPort(spec.healthCheckNodePort, "spec.healthCheckNodePort")
      : 0,
    ...readScheduler(metadata, omissions),
    ...readAcceleration(metadata, omissions),
  };
}

export const SCHEDULER_ANNOTATION = "signpost.dev/scheduler";
export const HASH_ANNOTATION = "signpost.dev/hash";

/** Reads an annotation. A misspelt value is left out, so the configuration applies. */
function readAnnotation<T extends string>(
  { annotations }: Metadata,
  name: string,
  { choices, omissions }: { readonly choices: readonly T[]; readonly omissions: Omissions },
): T | "" {
  const path = `metadata.annotations[${name}]`;
  const read = () => readChoice<T | "">(annotations[name], path, ["", ...choices]);
  return readOrOmit(read, omissions) ?? "";
}

function readScheduler(
  metadata: Metadata,
  omissions: Omissions,
): { readonly scheduler?: AskedScheduler } {
  const name = readAnnotation(metadata, SCHEDULER_ANNOTATION, { choices: SCHEDULERS, omissions });
  const hash = readAnnotation(metadata, HASH_ANNOTATION, { choices: HASH_SOURCES, omissions });
  return name === "" && hash === "" ? {} : { scheduler: { name, hash } };
}

/** The annotation that takes a Service into the fast path, or out of it. */
export const ACCELERATION_ANNOTATION = "signpost.dev/acceleration";

function readAcceleration(
  metadata: Metadata,
  omissions: Omissions,
): Pick<Service, "acceleration"> {
  const choices = ["on", "off"] as const;
  const acceleration = readAnnotation(metadata, ACCELERATION_ANNOTATION, { choices, omissions });
  return acceleration ? { acceleration } : {};
}

function readVirtualIP(value: unknown, path: string): string {
  const address = readAddress(value, path);
  if (!canBeVirtual(address)) {
    throw new MalformedError(
      path,
      "must not be a loopback, link-local, unspecified, multicast or broadcast address",
      value,
    );
  }
  return address;
}

function readClusterIPs(spec: Spec, clusterIP: string, omissions: Omissions): readonly string[] {
  const listed = readArray(spec.clusterIPs, "spec.clusterIPs");
  if (listed.length === 0) return [readVirtualIP(clusterIP, "spec.clusterIP")];
  const families = new Set<Family>();
  const addresses = readEntries(spec.clusterIPs, "spec.clusterIPs", {
    omissions,
    read: (value, path) => {
      const address = readVirtualIP(value, path);
      if (families.has(familyOf(address))) {
        throw new MalformedError(path, "must be the only address of its family", value);
      }
      families.add(familyOf(address));
      return address;
    },
  });
  if (addresses.length === 0) {
    throw new MalformedError("spec.clusterIPs", "must hold a usable address", listed);
  }
  return addresses;
}

/** Reads the addresses whose packets the load balancer does not rewrite (KEP-1860: `ipMode` is not `Proxy`). */
function readLoadBalancerIPs(status: Status, omissions: Omissions): readonly string[] {
  const path = "status.loadBalancer";
  const ingress = readObject(status.loadBalancer, path).ingress;
  const addresses = readEntries(ingress, `${path}.ingress`, {
    omissions,
    read: (value, path) => {
      const entry = readObject(value, path);
      if (!entry.ip || readString(entry.ipMode, `${path}.ipMode`) === "Proxy") return undefined;
      return readVirtualIP(entry.ip, `${path}.ip`);
    },
  });
  return compact([...new Set(addresses)]);
}

/**
 * Reads the source ranges. As in kube-proxy, unusable ones are left out, and a family without a range accepts all its
 * sources. If none is usable, the Service is refused: an empty list would accept every source.
 */
function readSourceRanges(
  spec: Spec,
  { loadBalancerIPs, omissions }:
    & Pick<Service, "loadBalancerIPs">
    & Pick<DecodeContext, "omissions">,
): readonly string[] {
  const path = "spec.loadBalancerSourceRanges";
  const listed = readArray(spec.loadBalancerSourceRanges, path);
  const ranges = readEntries(spec.loadBalancerSourceRanges, path, { omissions, read: readCidr });
  const isBlank = (range: unknown) => typeof range === "string" && range.trim() === "";
  if (ranges.length === 0 && !listed.every(isBlank)) {
    throw new MalformedError(
      path,
      "must hold a readable CIDR, or every source would have access",
      listed,
    );
  }
  for (const family of listed.length === 0 ? [] : FAMILIES) {
    const ip = loadBalancerIPs.find((each) => familyOf(each) === family);
    if (ip === undefined || ranges.some((range) => familyOf(range) === family)) continue;
    const rule = `must hold a range of IPv${family}, or every source reaches ${ip}`;
    omissions.add(new MalformedError(path, rule));
  }
  return ranges;
}

function readPorts(
  spec: Spec,
  { intern, sharePorts, omissions }: DecodeContext,
): readonly ServicePort[] {
  const taken = new Set<string>();
  const ports = readEntries(spec.ports, "spec.ports", {
    omissions,
    read: (value, path): ServicePort => {
      const port = readObject(value, path);
      const decoded: ServicePort = {
        name: intern(readOptionalName(port.name, `${path}.name`)),
        protocol: readProtocol(port.protocol, `${path}.protocol`),
        port: readPort(port.port, `${path}.port`),
        nodePort: port.nodePort ? readPort(port.nodePort, `${path}.nodePort`) : 0,
      };
      const owned = ownedBy(decoded);
      for (const [field, key] of owned) {
        if (!taken.has(key)) continue;
        throw new MalformedError(`${path}.${field}`, "must be of one port only", decoded[field]);
      }
      for (const [, key] of owned) taken.add(key);
      return decoded;
    },
  });
  if (ports.length === 0) {
    throw new MalformedError("spec.ports", "must hold at least one usable port", spec.ports);
  }
  // No other Service has the same node port, so such a list does not recur.
  return ports.some(({ nodePort }) => nodePort !== 0) ? ports : sharePorts(ports);
}

/** Returns the values, by field, that no two ports of a Service may share. */
function ownedBy(
  { name, protocol, port, nodePort }: ServicePort,
): readonly (readonly [keyof ServicePort, key: string])[] {
  const all = [
    ["name", `name ${name}`],
    ["port", `port ${nodePortKey(protocol, port)}`],
    ["nodePort", `node port ${nodePortKey(protocol, nodePort)}`],
  ] as const;
  return nodePort === 0 ? all.slice(0, 2) : all;
}

function readAffinitySeconds(spec: Spec): number {
  if (
    readChoice(spec.sessionAffinity, "spec.sessionAffinity", ["None", "ClientIP"]) === "None"
  ) return 0;
  const path = "spec.sessionAffinityConfig";
  const clientIP = readObject(
    readObject(spec.sessionAffinityConfig, path).clientIP,
    `${path}.clientIP`,
  );
  return readInteger(
    clientIP.timeoutSeconds ?? DEFAULT_AFFINITY_SECONDS,
    `${path}.clientIP.timeoutSeconds`,
    { min: 1, max: MAX_AFFINITY_SECONDS },
  );
}
