/**
 * Decodes Services (Kubernetes API, core/v1 Service).
 *
 * @module
 */
import { familyOf, isSpecialAddress } from "../../model/address.ts";
import type { Service, ServicePort } from "../../model/objects.ts";
import {
  type Intern,
  type Json,
  MalformedError,
  type Metadata,
  readAddress,
  readArray,
  readChoice,
  readCidr,
  readInteger,
  readObject,
  readOptionalName,
  readPort,
  readProtocol,
  readString,
  readTime,
} from "./read.ts";

/** The API server's default for `sessionAffinityConfig.clientIP.timeoutSeconds`. */
const DEFAULT_AFFINITY_SECONDS = 10_800;
const MAX_AFFINITY_SECONDS = 86_400;

/**
 * Decodes a Service.
 *
 * @returns `undefined` for one that makes no rules: headless, ExternalName, without a cluster IP
 *   yet, or meant for another proxy (label `service.kubernetes.io/service-proxy-name`)
 * @throws {MalformedError} where a field cannot be used
 */
export function decodeService(raw: Json, metadata: Metadata, intern: Intern): Service | undefined {
  const spec = readObject(raw["spec"], "spec");
  const status = readObject(raw["status"], "status");
  const type = readString(spec["type"], "spec.type");
  const clusterIP = readString(spec["clusterIP"], "spec.clusterIP");
  const otherProxy = metadata.labels["service.kubernetes.io/service-proxy-name"] !== undefined;
  if (otherProxy || type === "ExternalName" || clusterIP === "" || clusterIP === "None") {
    return undefined;
  }

  const externalIPs = readArray(spec["externalIPs"], "spec.externalIPs").map(readExternalIP);
  const external = type === "LoadBalancer" || type === "NodePort" || externalIPs.length > 0;
  const externalTrafficPolicy = external
    ? readChoice(spec["externalTrafficPolicy"], "spec.externalTrafficPolicy", ["Cluster", "Local"])
    : "Cluster";
  const needsHealthCheck = type === "LoadBalancer" && externalTrafficPolicy === "Local";
  return {
    namespace: intern(metadata.namespace),
    name: metadata.name,
    uid: readString(metadata.raw["uid"], "metadata.uid"),
    created: readTime(metadata.raw["creationTimestamp"]),
    clusterIPs: readClusterIPs(spec, clusterIP),
    externalIPs: [...new Set(externalIPs)],
    loadBalancerIPs: readLoadBalancerIPs(status),
    sourceRanges: readArray(spec["loadBalancerSourceRanges"], "spec.loadBalancerSourceRanges")
      .map((range, i) => readCidr(range, `spec.loadBalancerSourceRanges[${i}]`)),
    ports: readPorts(spec, intern),
    internalTrafficPolicy: readChoice(
      spec["internalTrafficPolicy"],
      "spec.internalTrafficPolicy",
      ["Cluster", "Local"],
    ),
    externalTrafficPolicy,
    affinitySeconds: readAffinitySeconds(spec),
    healthCheckNodePort: needsHealthCheck && spec["healthCheckNodePort"]
      ? readPort(spec["healthCheckNodePort"], "spec.healthCheckNodePort")
      : 0,
  };
}

function readExternalIP(value: unknown, index: number): string {
  const path = `spec.externalIPs[${index}]`;
  const address = readAddress(value, path);
  if (isSpecialAddress(address)) {
    throw new MalformedError(
      path,
      "must not be a loopback, link-local or unspecified address",
      value,
    );
  }
  return address;
}

function readClusterIPs(spec: Json, clusterIP: string): string[] {
  const listed = readArray(spec["clusterIPs"], "spec.clusterIPs");
  const addresses = listed.length === 0
    ? [readAddress(clusterIP, "spec.clusterIP")]
    : listed.map((each, i) => readAddress(each, `spec.clusterIPs[${i}]`));
  if (new Set(addresses.map(familyOf)).size !== addresses.length) {
    throw new MalformedError(
      "spec.clusterIPs",
      "must hold at most one address of each family",
      listed,
    );
  }
  return addresses;
}

/** Addresses that the load balancer hands to the node as they are (KEP-1860: `ipMode` is not `Proxy`). */
function readLoadBalancerIPs(status: Json): string[] {
  const path = "status.loadBalancer";
  const ingress = readArray(readObject(status["loadBalancer"], path)["ingress"], `${path}.ingress`);
  const addresses = new Set<string>();
  for (const [i, value] of ingress.entries()) {
    const entry = readObject(value, `${path}.ingress[${i}]`);
    if (!entry["ip"] || entry["ipMode"] === "Proxy") continue;
    addresses.add(readAddress(entry["ip"], `${path}.ingress[${i}].ip`));
  }
  return [...addresses];
}

function readPorts(spec: Json, intern: Intern): ServicePort[] {
  const ports = readArray(spec["ports"], "spec.ports");
  if (ports.length === 0) throw new MalformedError("spec.ports", "must hold at least one port");
  const decoded = ports.map((value, i) => {
    const path = `spec.ports[${i}]`;
    const port = readObject(value, path);
    return {
      name: intern(readOptionalName(port["name"], `${path}.name`)),
      protocol: readProtocol(port["protocol"], `${path}.protocol`),
      port: readPort(port["port"], `${path}.port`),
      nodePort: port["nodePort"] ? readPort(port["nodePort"], `${path}.nodePort`) : 0,
    };
  });
  if (new Set(decoded.map(({ name }) => name)).size !== decoded.length) {
    throw new MalformedError(
      "spec.ports",
      "must have names that differ",
      decoded.map((p) => p.name),
    );
  }
  return decoded;
}

function readAffinitySeconds(spec: Json): number {
  if (
    readChoice(spec["sessionAffinity"], "spec.sessionAffinity", ["None", "ClientIP"]) === "None"
  ) return 0;
  const path = "spec.sessionAffinityConfig";
  const clientIP = readObject(
    readObject(spec["sessionAffinityConfig"], path)["clientIP"],
    `${path}.clientIP`,
  );
  return readInteger(
    clientIP["timeoutSeconds"] ?? DEFAULT_AFFINITY_SECONDS,
    `${path}.clientIP.timeoutSeconds`,
    { min: 1, max: MAX_AFFINITY_SECONDS },
  );
}
