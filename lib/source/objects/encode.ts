/**
 * From what signpost keeps of an object to an API object that the decoder reads as the same.
 *
 * A field that the model gains must be written here to compile (see `complete`).
 *
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
import { AUTOSCALER_TAINT, ZONE_LABEL } from "./decode_node.ts";
import { CHANGE_TRIGGER, SERVICE_NAME } from "./decode_endpoint_slice.ts";
import { HASH_ANNOTATION, SCHEDULER_ANNOTATION } from "./decode_service.ts";
import { API_VERSION } from "./kinds.ts";

/** An API object as JSON. Fields that are `undefined` are left out of its text. */
export type Encoded = Readonly<Record<string, unknown>>;

type Encoders = { readonly [K in Kind]: (object: KindMap[K]) => Encoded };

const ENCODERS: Encoders = {
  Service: encodeService,
  EndpointSlice: encodeEndpointSlice,
  Node: encodeNode,
  ServiceCIDR: encodeServiceCIDR,
};

/** The API object; what was left out of it when it was decoded stays out. */
export function encodeObject<K extends Kind>(kind: K, object: KindMap[K]): Encoded {
  return { apiVersion: API_VERSION[kind], kind, ...ENCODERS[kind](object) };
}

/** Does not compile where a field of the object was not taken out of what is left of it. */
function complete(_rest: Readonly<Record<string, never>>): void {}

/** `T` where these are all of its fields; else nothing that could be read from. */
type Only<T, Fields extends keyof T> = Exclude<keyof T, Fields> extends never ? T : never;

type WrittenOfEndpoint =
  | "address"
  | "nodeName"
  | "ready"
  | "serving"
  | "terminating"
  | "zoneHints"
  | "nodeHints";

const PROTOCOLS: Readonly<Record<Protocol, string>> = { tcp: "TCP", udp: "UDP", sctp: "SCTP" };

function encodeService(service: Service): Encoded {
  const { namespace, name, uid, created, clusterIPs, externalIPs, loadBalancerIPs, ...other } =
    service;
  const { sourceRanges, ports, internalTrafficPolicy, externalTrafficPolicy, ...last } = other;
  const { affinitySeconds, healthCheckNodePort, scheduler, omitted: _, ...rest } = last;
  complete(rest);
  return {
    metadata: {
      namespace,
      name,
      uid: uid || undefined,
      creationTimestamp: timeOf(created),
      annotations: scheduler && {
        [SCHEDULER_ANNOTATION]: scheduler.name || undefined,
        [HASH_ANNOTATION]: scheduler.hash || undefined,
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

/** The least type that has all that the Service has. */
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

/**
 * Endpoints are many, so what is left of one is not gathered: its type alone says that nothing is.
 * Conditions that are as they are without a word are left out.
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

/** All addresses become internal ones, in their order; that the Node goes away becomes the taint. */
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

function encodeServiceCIDR({ name, cidrs, omitted: _, ...rest }: ServiceCIDR): Encoded {
  complete(rest);
  return { metadata: { name }, spec: { cidrs } };
}

function listOf<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}

/** RFC 3339; 0 stands for none. */
function timeOf(time: number): string | undefined {
  return time === 0 ? undefined : new Date(time).toISOString();
}
