/**
 * Decodes EndpointSlices (Kubernetes API, discovery.k8s.io/v1 EndpointSlice).
 *
 * @module
 */
import { type Family, familyOf, isSpecialAddress } from "../../model/address.ts";
import type { Endpoint, EndpointPort, EndpointSlice } from "../../model/objects.ts";
import {
  type Intern,
  type Json,
  MalformedError,
  type Metadata,
  readAddress,
  readArray,
  readBoolean,
  readChoice,
  readName,
  readObject,
  readOptionalName,
  readPort,
  readProtocol,
  readTime,
} from "./read.ts";

/** Shared by all endpoints without a hint. */
const NO_HINTS: readonly string[] = [];

/**
 * Decodes an EndpointSlice.
 *
 * @returns `undefined` for one that makes no rules: of host names, of a headless Service, or of no Service
 * @throws {MalformedError} where a field cannot be used
 */
export function decodeEndpointSlice(
  raw: Json,
  metadata: Metadata,
  intern: Intern,
): EndpointSlice | undefined {
  const serviceName = metadata.labels["kubernetes.io/service-name"] ?? "";
  const headless = metadata.labels["service.kubernetes.io/headless"] !== undefined;
  const otherProxy = metadata.labels["service.kubernetes.io/service-proxy-name"] !== undefined;
  const addressType = readChoice(raw["addressType"] || "missing", "addressType", [
    "IPv4",
    "IPv6",
    "FQDN",
  ]);
  if (serviceName === "" || headless || otherProxy || addressType === "FQDN") return undefined;

  const family = addressType === "IPv4" ? 4 : 6;
  return {
    namespace: intern(metadata.namespace),
    name: metadata.name,
    serviceName: intern(readName(serviceName, 'metadata.labels["kubernetes.io/service-name"]')),
    family,
    ports: readEndpointPorts(raw, intern),
    endpoints: readArray(raw["endpoints"], "endpoints")
      .map((value, i) => readEndpoint(value, { path: `endpoints[${i}]`, family, intern })),
    lastChangeTriggerTime: readTime(
      metadata.annotations["endpoints.kubernetes.io/last-change-trigger-time"],
    ),
  };
}

/** Ports without a number (null means every port) cannot be forwarded to and are left out, as kube-proxy does. */
function readEndpointPorts(raw: Json, intern: Intern): EndpointPort[] {
  const ports: EndpointPort[] = [];
  for (const [i, value] of readArray(raw["ports"], "ports").entries()) {
    const path = `ports[${i}]`;
    const port = readObject(value, path);
    if (port["port"] === undefined || port["port"] === null) continue;
    ports.push({
      name: intern(readOptionalName(port["name"], `${path}.name`)),
      protocol: readProtocol(port["protocol"], `${path}.protocol`),
      port: readPort(port["port"], `${path}.port`),
    });
  }
  return ports;
}

function readEndpoint(
  value: unknown,
  options: { readonly path: string; readonly family: Family; readonly intern: Intern },
): Endpoint {
  const { path, family, intern } = options;
  const endpoint = readObject(value, path);
  const conditions = readObject(endpoint["conditions"], `${path}.conditions`);
  const hints = readObject(endpoint["hints"], `${path}.hints`);
  const nodeName = readOptionalName(endpoint["nodeName"], `${path}.nodeName`);
  return {
    address: readEndpointAddress(endpoint, path, family),
    nodeName: nodeName === "" ? undefined : intern(nodeName),
    ready: readBoolean(conditions["ready"], `${path}.conditions.ready`, true),
    serving: readBoolean(conditions["serving"], `${path}.conditions.serving`, true),
    terminating: readBoolean(conditions["terminating"], `${path}.conditions.terminating`, false),
    zoneHints: readHints(hints["forZones"], `${path}.hints.forZones`, intern),
    nodeHints: readHints(hints["forNodes"], `${path}.hints.forNodes`, intern),
  };
}

/** The first address: the API says that consumers need not look at more. */
function readEndpointAddress(endpoint: Json, path: string, family: Family): string {
  const first = readArray(endpoint["addresses"], `${path}.addresses`)[0];
  const address = readAddress(first, `${path}.addresses[0]`);
  if (familyOf(address) !== family) {
    throw new MalformedError(`${path}.addresses[0]`, `must be an IPv${family} address`, first);
  }
  if (isSpecialAddress(address)) {
    throw new MalformedError(
      `${path}.addresses[0]`,
      "must not be a loopback, link-local or unspecified address",
      first,
    );
  }
  return address;
}

function readHints(value: unknown, path: string, intern: Intern): readonly string[] {
  const hints = readArray(value, path);
  if (hints.length === 0) return NO_HINTS;
  return hints.map((hint, i) =>
    intern(readName(readObject(hint, `${path}[${i}]`)["name"], `${path}[${i}].name`))
  );
}
