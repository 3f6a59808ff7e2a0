/**
 * A Service for tests of repairs.
 *
 * @module
 */
import type { ApiObject } from "../../../support/pipeline.ts";

const metadata = { namespace: "shop", name: "web" };

/** The Service shop/web, and its two endpoints. */
export const SERVICE: readonly ApiObject[] = [
  { kind: "Service", metadata, spec: { clusterIP: "10.96.0.1", ports: [{ port: 80 }] } },
  {
    kind: "EndpointSlice",
    metadata: {
      namespace: "shop",
      name: "web-1",
      labels: { "kubernetes.io/service-name": "web" },
    },
    addressType: "IPv4",
    endpoints: [{ addresses: ["10.244.0.11"] }, { addresses: ["10.244.0.12"] }],
    ports: [{ port: 8080 }],
  },
];

/** The Service shop/sticky with session affinity, and its two endpoints. */
export const STICKY: readonly ApiObject[] = [
  {
    kind: "Service",
    metadata: { namespace: "shop", name: "sticky" },
    spec: { clusterIP: "10.96.0.2", sessionAffinity: "ClientIP", ports: [{ port: 80 }] },
  },
  {
    kind: "EndpointSlice",
    metadata: {
      namespace: "shop",
      name: "sticky-1",
      labels: { "kubernetes.io/service-name": "sticky" },
    },
    addressType: "IPv4",
    endpoints: [{ addresses: ["10.244.0.13"] }, { addresses: ["10.244.0.14"] }],
    ports: [{ port: 8080 }],
  },
];

/** The Service shop/turns, whose two endpoints take turns. */
export const TURNS: readonly ApiObject[] = [
  {
    kind: "Service",
    metadata: {
      namespace: "shop",
      name: "turns",
      annotations: { "signpost.dev/scheduler": "round-robin" },
    },
    spec: { clusterIP: "10.96.0.3", ports: [{ port: 80 }] },
  },
  {
    kind: "EndpointSlice",
    metadata: {
      namespace: "shop",
      name: "turns-1",
      labels: { "kubernetes.io/service-name": "turns" },
    },
    addressType: "IPv4",
    endpoints: [{ addresses: ["10.244.0.15"] }, { addresses: ["10.244.0.16"] }],
    ports: [{ port: 8080 }],
  },
];
