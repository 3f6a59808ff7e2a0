/**
 * API objects for tests of the desired state.
 *
 * @module
 */
import type { DesiredServicePort } from "../../lib/model/kernel/desired.ts";
import { hostPort } from "../../lib/model/cluster/names.ts";
import { type ApiObject, NODE_NAME } from "../support/pipeline.ts";

/** Fields of a Service's spec. */
export type Fields = Readonly<Record<string, unknown>>;

/** The Service `default/<name>` with port 80 and a cluster IP, and whatever the spec says. */
export function service(name: string, spec: Fields = {}, status: Fields = {}): ApiObject {
  return {
    kind: "Service",
    metadata: { namespace: "default", name, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { clusterIP: "10.96.0.1", ports: [{ port: 80 }], ...spec },
    status,
  };
}

/** The `status` of a Service with these load-balancer IPs. */
export function ingress(...addresses: readonly string[]): Fields {
  return { loadBalancer: { ingress: addresses.map((ip) => ({ ip })) } };
}

/** A slice `default/<service>-<suffix>` with port 8080 and endpoints as `address` or `address@node`. */
export function slice(
  service: string,
  endpoints: readonly string[],
  fields: Fields & { readonly suffix?: string } = {},
): ApiObject {
  const { suffix = "1", ...rest } = fields;
  return {
    kind: "EndpointSlice",
    metadata: {
      namespace: "default",
      name: `${service}-${suffix}`,
      labels: { "kubernetes.io/service-name": service },
    },
    addressType: endpoints[0]?.includes(":") ? "IPv6" : "IPv4",
    ports: [{ port: 8080 }],
    endpoints: endpoints.map((text) => {
      const [address, nodeName = "node-2"] = text.split("@");
      return { addresses: [address], nodeName };
    }),
    ...rest,
  };
}

/** The node under test. */
export function node(
  addresses: readonly string[],
  labels: Readonly<Record<string, string>> = {},
): ApiObject {
  return {
    kind: "Node",
    metadata: { name: NODE_NAME, labels },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  };
}

/** Endpoints as `address:port`. */
export function targets(port: DesiredServicePort | undefined, list: "cluster" | "local"): string[] {
  const endpoints = list === "cluster" ? port?.clusterEndpoints : port?.localEndpoints;
  return (endpoints ?? []).map(({ address, port }) => hostPort(address, port));
}
