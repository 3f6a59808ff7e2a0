/** API objects for tests of the desired state. */
import type { DesiredServicePort } from "../../lib/model/kernel/desired.ts";
import { hostPort } from "../../lib/model/cluster/names.ts";
import type { ApiObject } from "../support/api_store.ts";
import {
  type Fields,
  node as buildNode,
  service as buildService,
  type ServiceFields,
  slice as buildSlice,
} from "../support/cluster.ts";

/** The Service `default/<name>` with port 80 and a cluster IP, and whatever the fields say. */
export function service(name: string, fields: ServiceFields = {}, status?: Fields): ApiObject {
  const metadata = { creationTimestamp: "2026-01-01T00:00:00Z", ...fields.metadata };
  return { ...buildService({ name, ...fields, metadata }), ...status && { status } };
}

/** The `status` of a Service with these load-balancer IPs. */
export function ingress(...addresses: readonly string[]): Fields {
  return { loadBalancer: { ingress: addresses.map((ip) => ({ ip })) } };
}

/** A slice `default/<service>-<suffix>` with port 8080 and endpoints as `address` or `address@node`. */
export function slice(
  service: string,
  endpoints: readonly string[],
  { suffix = "1", ...fields }: Fields & { readonly suffix?: string } = {},
): ApiObject {
  return buildSlice({ service, name: `${service}-${suffix}`, endpoints, ...fields });
}

/** The node under test. */
export function node(
  addresses: readonly string[],
  labels: Readonly<Record<string, string>> = {},
): ApiObject {
  return buildNode({ addresses, labels });
}

/** Endpoints as `address:port`. */
export function targets(port: DesiredServicePort | undefined, list: "cluster" | "local"): string[] {
  const endpoints = list === "cluster" ? port?.clusterEndpoints : port?.localEndpoints;
  return (endpoints ?? []).map(({ address, port }) => hostPort(address, port));
}
