/** Decoding in tests: an object with one thing changed, and what the decoder says to it. */
import { assertEquals } from "@std/assert";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import type { Kind, KindMap } from "../../../lib/model/cluster/objects.ts";
import type { ApiObject } from "../../support/api_store.ts";

export type Json = Readonly<Record<string, unknown>>;

/** A Service with every field that is read. */
export const SERVICE: ApiObject = {
  apiVersion: "v1",
  kind: "Service",
  metadata: {
    namespace: "shop",
    name: "web",
    uid: "3f1b",
    creationTimestamp: "2026-01-02T03:04:05Z",
    labels: { app: "web" },
  },
  spec: {
    type: "LoadBalancer",
    clusterIP: "10.96.0.10",
    clusterIPs: ["10.96.0.10", "FD00:10:96::A"],
    externalIPs: ["192.0.2.1", "192.0.2.1"],
    loadBalancerSourceRanges: [" 198.51.100.7/24", "2001:db8::/32"],
    ports: [
      { name: "http", port: 80, targetPort: "http", nodePort: 30080, protocol: "TCP" },
      { name: "dns", port: 53, nodePort: 30053, protocol: "UDP" },
      { name: "sigtran", port: 2905, protocol: "SCTP" },
    ],
    internalTrafficPolicy: "Local",
    externalTrafficPolicy: "Local",
    healthCheckNodePort: 31000,
    sessionAffinity: "ClientIP",
    sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } },
    selector: { app: "web" },
  },
  status: {
    loadBalancer: {
      ingress: [
        { ip: "203.0.113.1", ipMode: "VIP" },
        { ip: "203.0.113.2", ipMode: "Proxy" },
        { ip: "203.0.113.1" },
        { hostname: "lb.example.org" },
      ],
    },
  },
};

/** An EndpointSlice with every field that is read. */
export const SLICE: ApiObject = {
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: {
    namespace: "shop",
    name: "web-x7k2p",
    labels: { "kubernetes.io/service-name": "web" },
    annotations: { "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05Z" },
  },
  addressType: "IPv4",
  ports: [
    { name: "http", port: 8080, protocol: "TCP", appProtocol: "http" },
    { name: "dns", port: 53, protocol: "UDP" },
  ],
  endpoints: [
    {
      addresses: ["10.244.0.1", "10.244.0.2"],
      conditions: { ready: false, serving: true, terminating: true },
      nodeName: "node-1",
      zone: "zone-a",
      hints: { forZones: [{ name: "zone-a" }, { name: "zone-b" }], forNodes: [{ name: "node-1" }] },
      targetRef: { kind: "Pod", name: "web-1" },
    },
    { addresses: ["010.244.0.003"] },
  ],
};

/** A Node with every field that is read but those of its deletion. */
export const NODE: ApiObject = {
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: "node-1", uid: "77ac", labels: { "topology.kubernetes.io/zone": "zone-a" } },
  spec: { podCIDR: "10.244.1.0/24", podCIDRs: ["10.244.1.0/24", "FD00:10:244:1::/64"] },
  status: {
    addresses: [
      { type: "Hostname", address: "node-1" },
      { type: "ExternalIP", address: "203.0.113.5" },
      { type: "InternalIP", address: "192.0.2.10" },
      { type: "InternalIP", address: "2001:DB8::10" },
      { type: "ExternalIP", address: "192.0.2.10" },
    ],
  },
};

/** A ServiceCIDR with every field that is read. */
export const SERVICE_CIDR: ApiObject = {
  apiVersion: "networking.k8s.io/v1",
  kind: "ServiceCIDR",
  metadata: { name: "kubernetes" },
  spec: { cidrs: ["10.96.0.7/12", "FD00:10:96::/112"] },
};

/**
 * A copy of an object with one value replaced.
 *
 * @param path such as `spec.ports[0].port`; what is missing on the way is made
 * @param value `undefined` takes the field away
 */
export function withValue(object: Json, path: string, value: unknown): Json {
  const keys = [...path.matchAll(/\["([^"]+)"\]|\[(\d+)\]|([^.[\]]+)/g)]
    .map(([, quoted, index, name]) => quoted ?? index ?? name ?? "");
  return replaceAt(object, keys, value) as Json;
}

function replaceAt(container: unknown, keys: readonly string[], value: unknown): unknown {
  const [key, ...rest] = keys;
  if (key === undefined) return value;
  if (Array.isArray(container)) {
    return container.map((each, i) => `${i}` === key ? replaceAt(each, rest, value) : each);
  }
  const fields = { ...(container as Json | undefined) };
  fields[key] = replaceAt(fields[key], rest, value);
  if (fields[key] === undefined) delete fields[key];
  return fields;
}

/** Decodes an object that must be good. */
export function decodeGood<K extends Kind>(kind: K, raw: unknown): KindMap[K] {
  const decoded = createDecoder()(kind, raw);
  if (decoded.type !== "upsert") throw new Error(`the object is ${Deno.inspect(decoded)}`);
  return decoded.object;
}

/** A field, a value that cannot be used, and the rule that it breaks or the whole reason. */
export type BadValue = readonly [path: string, value: unknown, rule: string];

function reasonOf([path, value, rule]: BadValue): string {
  return rule.includes(", is ") ? rule : `${path} ${rule}, is ${JSON.stringify(value) ?? "null"}`;
}

/** Declares a test for each: of the object with this value an entry is left out, by name and reason. */
export function testOmissions(kind: Kind, good: Json, cases: readonly BadValue[]): void {
  for (const each of cases) {
    const [path, value] = each;
    const reason = reasonOf(each);
    Deno.test(`of a ${kind} a part is left out: ${reason}`, () => {
      const { omitted } = decodeGood(kind, withValue(good, path, value));
      assertEquals(omitted, [reason]);
    });
  }
}

/** Declares a test for each: the object with this value is refused, by name and reason. */
export function testRefusals(kind: Kind, good: Json, cases: readonly BadValue[]): void {
  const { namespace, name } = good["metadata"] as { namespace?: string; name: string };
  const key = namespace === undefined ? name : `${namespace}/${name}`;
  for (const each of cases) {
    const [path, value] = each;
    const reason = reasonOf(each);
    Deno.test(`a ${kind} is refused: ${reason}`, () => {
      const decoded = createDecoder()(kind, withValue(good, path, value));
      assertEquals(decoded, { type: "refuse", kind, key, reason });
    });
  }
}
