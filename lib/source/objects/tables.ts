/**
 * The fields that signpost reads of API objects, for the protobuf reader and the decoders. Numbers
 * and names are from the API's generated.proto files (k8s.io/api/core/v1, discovery/v1,
 * networking/v1, k8s.io/apimachinery/pkg/apis/meta/v1).
 *
 * A new field goes here, into the model, and into the decoder and encoder of its kind.
 *
 * @module
 */
import type { Kind } from "../../model/cluster/objects.ts";
import { boolean, type Fields, integer, many, map, one, string, strings, time } from "./fields.ts";

/** meta/v1 ObjectMeta. */
export const METADATA = {
  name: string(1),
  namespace: string(3),
  uid: string(5),
  resourceVersion: string(6),
  creationTimestamp: time(8),
  deletionTimestamp: time(9),
  labels: map(11),
  annotations: map(12),
};

/** core/v1 Service. */
export const SERVICE = {
  metadata: one(1, METADATA),
  spec: one(2, {
    ports: many(1, {
      name: string(1),
      protocol: string(2),
      port: integer(3),
      nodePort: integer(5),
    }),
    clusterIP: string(3),
    type: string(4),
    externalIPs: strings(5),
    sessionAffinity: string(7),
    loadBalancerSourceRanges: strings(9),
    externalTrafficPolicy: string(11),
    healthCheckNodePort: integer(12),
    sessionAffinityConfig: one(14, { clientIP: one(1, { timeoutSeconds: integer(1) }) }),
    clusterIPs: strings(18),
    internalTrafficPolicy: string(22),
  }),
  status: one(3, {
    loadBalancer: one(1, { ingress: many(1, { ip: string(1), ipMode: string(3) }) }),
  }),
};

/** discovery.k8s.io/v1 EndpointSlice. */
export const ENDPOINT_SLICE = {
  metadata: one(1, METADATA),
  endpoints: many(2, {
    addresses: strings(1),
    conditions: one(2, { ready: boolean(1), serving: boolean(2), terminating: boolean(3) }),
    nodeName: string(6),
    hints: one(8, {
      forZones: many(1, { name: string(1) }),
      forNodes: many(2, { name: string(1) }),
    }),
  }),
  ports: many(3, { name: string(1), protocol: string(2), port: integer(3) }),
  addressType: string(4),
};

/** core/v1 Node. */
export const NODE = {
  metadata: one(1, METADATA),
  spec: one(2, {
    podCIDR: string(1),
    taints: many(5, { key: string(1) }),
    podCIDRs: strings(7),
  }),
  status: one(3, { addresses: many(5, { type: string(1), address: string(2) }) }),
};

/** networking.k8s.io/v1 ServiceCIDR. */
export const SERVICE_CIDR = {
  metadata: one(1, METADATA),
  spec: one(2, { cidrs: strings(1) }),
};

/** The table of each kind. */
export const TABLES = {
  Service: SERVICE,
  EndpointSlice: ENDPOINT_SLICE,
  Node: NODE,
  ServiceCIDR: SERVICE_CIDR,
} satisfies { readonly [K in Kind]: Fields };

/** The tables, by kind. */
export type Tables = typeof TABLES;
