/**
 * Encodes an object of the model as an API object that decodes to the same value. A new field of the model must be
 * encoded to compile (see `complete`).
 * @module
 */
import type {
  Endpoint,
  EndpointPort,
  EndpointSlice,
  Kind,
  KindMap,
  Node,
  Protocol,
  Service,
  ServiceCIDR,
  ServicePort,
} from "../../model/cluster/objects.ts";
import { CHANGE_TRIGGER, SERVICE_NAME } from "./endpoint_slice.ts";
import { AUTOSCALER_TAINT, ZONE_LABEL } from "./node.ts";
import { ACCELERATION_ANNOTATION, HASH_ANNOTATION, SCHEDULER_ANNOTATION } from "./service.ts";
import { API_VERSION } from "./tables.ts";

/** An API object as JSON. Fields that are `undefined` are omitted from its text. */
type Encoded = Readonly<Record<string, unknown>>;

/** The API's spelling of each protocol. */
const PROTOCOLS: Readonly<Record<Protocol, string>> = {
  tcp: "TCP",
  udp: "UDP",
  sctp: "SCTP",
};

/** Fails to compile if a field of the object was not written. */
function complete(_rest: Readonly<Record<string, never>>): void {}

/** Returns the list, or `undefined` if it is empty. */
function listOf<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}

/** Returns RFC 3339, or `undefined` for 0. */
function timeOf(time: number): string | undefined {
  return time === 0 ? undefined : new Date(time).toISOString();
}

type Encoders = { readonly [K in Kind]: (object: KindMap[K]) => Encoded };

const ENCODERS: Encoders = {
  Service: encodeService,
  EndpointSlice: encodeEndpointSlice,
  Node: encodeNode,
  ServiceCIDR: encodeServiceCIDR,
};

/** Returns the API object. Parts that the decoder left out stay out. */
export function encodeObject<K extends Kind>(kind: K, object: KindMap[K]): Encoded {
  return { apiVersion: API_VERSION[kind], kind, ...ENCODERS[kind](object) };
}

/** Encodes a Service as an API object that decodes to it. */
function encodeService(service: Service): Encoded {
  const { namespace, name, uid, created, clusterIPs, externalIPs, loadBalancerIPs, ...other } =
    service;
  const { sourceRanges, ports, internalTrafficPolicy, externalTrafficPolicy, ...last } = other;
  const { affinitySeconds, healthCheckNodePort, scheduler, acceleration, ...others } = last;
  const { omitted: _, ...rest } = others;
  complete(rest);
  return {
    metadata: {
      namespace,
      name,
      uid: uid || undefined,
      creationTimestamp: timeOf(created),
      annotations: (scheduler || acceleration) && {
        [SCHEDULER_ANNOTATION]: scheduler?.name || undefined,
        [HASH_ANNOTATION]: scheduler?.hash || undefined,
        [ACCELERATION_ANNOTATION]: acceleration,
      },
    },
    spec: {
      type: typeOf(service),
      clusterIP: clusterIPs[0],
      clusterIPs,
      externalIPs: listOf(externalIPs),
      loadBalancerSourceRanges: listOf(sourceRanges),
      ports: ports.map(encodeServicePort),
      internalTrafficPolicy,
      externalTrafficPolicy: externalTrafficPolicy === "Local" ? "Local" : undefined,
      healthCheckNodePort: healthCheckNodePort || undefined,
      ...affinitySeconds > 0 && {
        sessionAffinity: "ClientIP",
        sessionAffinityConfig: { clientIP: { timeoutSeconds: affinitySeconds } },
      },
    },
    ...loadBalancerIPs.length > 0 && {
      status: { loadBalancer: { ingress: loadBalancerIPs.map((ip) => ({ ip })) } },
    },
  };
}

/** Returns the simplest type that allows all fields of the Service. */
function typeOf(service: Service): string {
  const { loadBalancerIPs, sourceRanges, ports } = service;
  if (service.healthCheckNodePort !== 0 || loadBalancerIPs.length > 0 || sourceRanges.length > 0) {
    return "LoadBalancer";
  }
  const isExternal = service.externalTrafficPolicy === "Local" ||
    ports.some(({ nodePort }) => nodePort !== 0);
  return isExternal ? "NodePort" : "ClusterIP";
}

function encodeServicePort({ name, protocol, port, nodePort, ...rest }: ServicePort): Encoded {
  complete(rest);
  return {
    name: name || undefined,
    protocol: PROTOCOLS[protocol],
    port,
    nodePort: nodePort || undefined,
  };
}

/** Encodes a slice as an API object that decodes to it. */
function encodeEndpointSlice(slice: EndpointSlice): Encoded {
  const { namespace, name, serviceName, family, ports, endpoints, ...last } = slice;
  const { lastChangeTriggerTime, omitted: _, ...rest } = last;
  complete(rest);
  const changed = timeOf(lastChangeTriggerTime);
  return {
    metadata: {
      namespace,
      name,
      labels: { [SERVICE_NAME]: serviceName },
      annotations: changed && { [CHANGE_TRIGGER]: changed },
    },
    addressType: family === 4 ? "IPv4" : "IPv6",
    ports: ports.map(encodeEndpointPort),
    endpoints: endpoints.map(encodeEndpoint),
  };
}

function encodeEndpointPort({ name, protocol, port, ...rest }: EndpointPort): Encoded {
  complete(rest);
  return { name, protocol: PROTOCOLS[protocol], port };
}

/** `T` if `Fields` are all its fields, else `never`. */
type Only<T, Fields extends keyof T> = Exclude<keyof T, Fields> extends never ? T : never;

type WrittenOfEndpoint =
  | "address"
  | "nodeName"
  | "ready"
  | "serving"
  | "terminating"
  | "zoneHints"
  | "nodeHints";

/**
 * Encodes an endpoint and leaves out default conditions. The parameter type checks that all fields are written, at
 * no runtime cost.
 */
function encodeEndpoint(endpoint: Only<Endpoint, WrittenOfEndpoint>): Encoded {
  const { address, nodeName, ready, serving, terminating, zoneHints, nodeHints } = endpoint;
  return {
    addresses: [address],
    conditions: {
      ready,
      serving: ready && serving ? undefined : serving,
      terminating: terminating ? true : undefined,
    },
    nodeName,
    hints: zoneHints.length === 0 && nodeHints.length === 0 ? undefined : {
      forZones: listOf(zoneHints)?.map((zone) => ({ name: zone })),
      forNodes: listOf(nodeHints)?.map((node) => ({ name: node })),
    },
  };
}

/**
 * Encodes a Node as an API object that decodes to it. All addresses become internal ones, and `deleting` becomes
 * the taint.
 */
function encodeNode(node: Node): Encoded {
  const { name, uid, addresses, podCIDRs, zone, deleting, omitted: _, ...rest } = node;
  complete(rest);
  return {
    metadata: {
      name,
      uid: uid || undefined,
      labels: zone === "" ? undefined : { [ZONE_LABEL]: zone },
    },
    spec: {
      podCIDRs: listOf(podCIDRs),
      taints: deleting ? [{ key: AUTOSCALER_TAINT, effect: "NoSchedule" }] : undefined,
    },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  };
}

/** Encodes a ServiceCIDR as an API object that decodes to it. */
function encodeServiceCIDR({ name, cidrs, omitted: _, ...rest }: ServiceCIDR): Encoded {
  complete(rest);
  return { metadata: { name }, spec: { cidrs } };
}
