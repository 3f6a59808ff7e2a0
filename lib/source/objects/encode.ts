/** Encodes objects of the model as API objects that decode to the same values (`tests/source/saved/format_test.ts`). */
import type {
  Endpoint,
  EndpointPort,
  EndpointSlice,
  Kind,
  KindMap,
  Node,
  Service,
  ServicePort,
} from "../../model/cluster/objects.ts";
import { CHANGE_TRIGGER, SERVICE_NAME } from "./endpoint_slice.ts";
import { AUTOSCALER_TAINT, ZONE_LABEL } from "./node.ts";
import { ACCELERATION_ANNOTATION, HASH_ANNOTATION, SCHEDULER_ANNOTATION } from "./service.ts";
import { API_VERSION } from "./tables.ts";

/** An API object as JSON. Fields that are `undefined` are omitted from its text. */
type Encoded = Readonly<Record<string, unknown>>;

const ENCODERS: { readonly [K in Kind]: (object: KindMap[K]) => Encoded } = {
  Service: encodeService,
  EndpointSlice: encodeEndpointSlice,
  Node: encodeNode,
  ServiceCIDR: ({ name, cidrs }) => ({ metadata: { name }, spec: { cidrs } }),
};

/** Returns the API object. Parts that the decoder left out stay out. */
export function encodeObject<K extends Kind>(kind: K, object: KindMap[K]): Encoded {
  return { apiVersion: API_VERSION[kind], kind, ...ENCODERS[kind](object) };
}

function listOf<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}

/** Returns RFC 3339, or `undefined` for 0. */
function timeOf(time: number): string | undefined {
  return time === 0 ? undefined : new Date(time).toISOString();
}

function encodeService(service: Service): Encoded {
  const { scheduler, affinitySeconds } = service;
  const ingress: readonly Encoded[] = service.isProxiedByBalancer
    ? [{ ipMode: "Proxy" }]
    : service.loadBalancerIPs.map((ip) => ({ ip }));
  return {
    metadata: {
      namespace: service.namespace,
      name: service.name,
      uid: service.uid || undefined,
      creationTimestamp: timeOf(service.created),
      annotations: (scheduler || service.acceleration) && {
        [SCHEDULER_ANNOTATION]: scheduler?.name || undefined,
        [HASH_ANNOTATION]: scheduler?.hash || undefined,
        [ACCELERATION_ANNOTATION]: service.acceleration,
      },
    },
    spec: {
      type: service.type,
      selector: service.hasSelector ? SOME_SELECTOR : undefined,
      clusterIP: service.clusterIPs[0],
      clusterIPs: service.clusterIPs,
      externalIPs: listOf(service.externalIPs),
      loadBalancerSourceRanges: listOf(service.sourceRanges),
      ports: service.ports.map(encodePort),
      internalTrafficPolicy: service.internalTrafficPolicy,
      externalTrafficPolicy: service.externalTrafficPolicy === "Local" ? "Local" : undefined,
      healthCheckNodePort: service.healthCheckNodePort || undefined,
      ...affinitySeconds > 0 && {
        sessionAffinity: "ClientIP",
        sessionAffinityConfig: { clientIP: { timeoutSeconds: affinitySeconds } },
      },
    },
    status: listOf(ingress) && { loadBalancer: { ingress } },
  };
}

/** Stands for the selector of a Service, of which only the presence is kept. */
const SOME_SELECTOR = { selector: "not kept" };

function encodePort({ name, protocol, port, nodePort }: EndpointPort & Partial<ServicePort>) {
  return {
    name: name || undefined,
    protocol: protocol.toUpperCase(),
    port,
    nodePort: nodePort || undefined,
  };
}

function encodeEndpointSlice(slice: EndpointSlice): Encoded {
  const changed = timeOf(slice.lastChangeTriggerTime);
  return {
    metadata: {
      namespace: slice.namespace,
      name: slice.name,
      labels: { [SERVICE_NAME]: slice.serviceName },
      annotations: changed && { [CHANGE_TRIGGER]: changed },
    },
    addressType: `IPv${slice.family}`,
    ports: slice.ports.map(encodePort),
    endpoints: slice.endpoints.map(encodeEndpoint),
  };
}

/** Encodes an endpoint without default conditions. */
function encodeEndpoint(endpoint: Endpoint): Encoded {
  const { address, nodeName, ready, serving, terminating, zoneHints, nodeHints } = endpoint;
  return {
    addresses: [address],
    conditions: {
      ready,
      serving: ready && serving ? undefined : serving,
      terminating: terminating || undefined,
    },
    nodeName,
    hints: zoneHints.length + nodeHints.length === 0 ? undefined : {
      forZones: listOf(zoneHints)?.map((zone) => ({ name: zone })),
      forNodes: listOf(nodeHints)?.map((node) => ({ name: node })),
    },
  };
}

/** Encodes a Node. All addresses become internal ones, and `deleting` becomes the taint. */
function encodeNode({ name, uid, addresses, podCIDRs, zone, deleting }: Node): Encoded {
  return {
    metadata: { name, uid: uid || undefined, labels: { [ZONE_LABEL]: zone || undefined } },
    spec: {
      podCIDRs: listOf(podCIDRs),
      taints: deleting ? [{ key: AUTOSCALER_TAINT, effect: "NoSchedule" }] : undefined,
    },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  };
}
