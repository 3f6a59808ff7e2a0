/** States of clusters for the tests of the state file. */
import {
  type AskedScheduler,
  HASH_SOURCES,
  SCHEDULERS,
} from "../../../lib/model/cluster/scheduler.ts";
import fc from "fast-check";
import {
  type SavedState,
  type StateHeader,
  stateLines,
  type StateObjects,
  StateReader,
} from "../../../lib/source/saved/format.ts";
import { type Family, parseAddress, parseCidr } from "../../../lib/model/values/address.ts";
import {
  type Endpoint,
  type EndpointPort,
  type EndpointSlice,
  KINDS,
  type Node,
  type ObjectChange,
  type Protocol,
  type ReplaceEvent,
  type Service,
  SERVICE_TYPES,
  type ServiceCIDR,
  type ServicePort,
  type TrafficPolicy,
} from "../../../lib/model/cluster/objects.ts";
import { objectKey } from "../../../lib/model/cluster/names.ts";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import { NODE_NAME, replacement } from "../../support/pipeline.ts";
import { modelEndpoint, modelService, modelSlice } from "../../support/cluster.ts";

export const HEADER: StateHeader = { nodeName: NODE_NAME, written: 1_767_225_600_000 };

const name = fc.stringMatching(/^[a-z0-9](?:[-a-z0-9.]{0,8}[a-z0-9])?$/);
const recurringName = fc.constantFrom("default", "web", "node-1", "node-2", "zone-a", "http");
const place = fc.oneof(recurringName, fc.constantFrom("Zone_A", ""));
const port = fc.integer({ min: 1, max: 65535 });
const portOrNone = fc.oneof(fc.constant(0), port);
const protocol = fc.constantFrom<Protocol>("tcp", "udp", "sctp");
const policy = fc.constantFrom<TrafficPolicy>("Cluster", "Local");
const time = fc.integer({ min: -8.64e15, max: 8.64e15 });

const addresses: Readonly<Record<Family, fc.Arbitrary<string>>> = {
  4: fc.tuple(fc.constantFrom(10, 192), fc.nat(255), fc.nat(255), fc.nat(255))
    .map((bytes) => bytes.join(".")),
  6: fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 7, maxLength: 7 })
    .map((groups) =>
      canonical(`fd00:${groups.map((each) => each.toString(16)).join(":")}`, parseAddress)
    ),
};
const address = fc.oneof(addresses[4], addresses[6]);
const cidr = fc.tuple(address, fc.nat(32)).map(([base, length]) =>
  canonical(`${base}/${length}`, parseCidr)
);

function canonical(text: string, parse: (text: string) => string | undefined): string {
  const parsed = parse(text);
  if (parsed === undefined) throw new Error(`${text} was to be usable`);
  return parsed;
}

/** The scheduler that a Service asks for; `undefined`: it has no annotation. */
const scheduler = fc.record<AskedScheduler>({
  name: fc.constantFrom("", ...SCHEDULERS),
  hash: fc.constantFrom("", ...HASH_SOURCES),
}).map((asked) => asked.name === "" && asked.hash === "" ? undefined : asked);

/** Does not compile where a field of Services is not drawn, even one that may be absent. */
type EveryField = { readonly [K in keyof Required<Omit<Service, "omitted">>]: Service[K] };

const service: fc.Arbitrary<Service> = fc.record<EveryField>({
  namespace: recurringName,
  name,
  uid: fc.string({ unit: "binary" }),
  created: time,
  type: fc.constantFrom(...SERVICE_TYPES),
  hasSelector: fc.boolean(),
  isProxiedByBalancer: fc.constantFrom(true, undefined),
  clusterIPs: fc.oneof(addresses[4].map((each) => [each]), fc.tuple(addresses[6], addresses[4])),
  externalIPs: fc.uniqueArray(address, { maxLength: 2 }),
  loadBalancerIPs: fc.uniqueArray(address, { maxLength: 2 }),
  sourceRanges: fc.array(cidr, { maxLength: 2 }),
  ports: fc.uniqueArray(
    fc.record<ServicePort>({
      name: fc.oneof(fc.constant(""), name),
      protocol,
      port,
      nodePort: portOrNone,
    }),
    { minLength: 1, maxLength: 3, comparator: sharesWhatIsItsOwn },
  ),
  internalTrafficPolicy: policy,
  externalTrafficPolicy: policy,
  affinitySeconds: fc.nat(86_400),
  healthCheckNodePort: portOrNone,
  scheduler,
  acceleration: fc.constantFrom("on", "off", undefined),
}).map(({ healthCheckNodePort, scheduler, acceleration, isProxiedByBalancer, ...rest }) => ({
  ...rest,
  ...isProxiedByBalancer && { isProxiedByBalancer, loadBalancerIPs: [] },
  ...scheduler && { scheduler },
  ...acceleration && { acceleration },
  // Other types have neither.
  ...rest.type === "ClusterIP" && { externalTrafficPolicy: "Cluster" },
  healthCheckNodePort: rest.type === "LoadBalancer" && rest.externalTrafficPolicy === "Local"
    ? healthCheckNodePort
    : 0,
}));

function endpoint(family: Family): fc.Arbitrary<Endpoint> {
  return fc.record({
    address: addresses[family],
    nodeName: fc.option(recurringName, { nil: undefined }),
    ready: fc.boolean(),
    serving: fc.boolean(),
    terminating: fc.boolean(),
    zoneHints: fc.array(place, { maxLength: 2 }),
    nodeHints: fc.array(place, { maxLength: 2 }),
  });
}

const slice: fc.Arbitrary<EndpointSlice> = fc.constantFrom<Family>(4, 6).chain((family) =>
  fc.record({
    namespace: recurringName,
    name,
    serviceName: recurringName,
    family: fc.constant(family),
    ports: fc.array(
      fc.record<EndpointPort>({ name: fc.oneof(fc.constant(""), name), protocol, port }),
      { maxLength: 2 },
    ),
    endpoints: fc.array(endpoint(family), { maxLength: 4 }),
    lastChangeTriggerTime: time,
  })
);

const node: fc.Arbitrary<Node> = fc.record({
  name: fc.constant(NODE_NAME),
  uid: fc.string(),
  addresses: fc.uniqueArray(address, { maxLength: 3 }),
  podCIDRs: fc.array(cidr, { maxLength: 2 }),
  zone: place,
  deleting: fc.boolean(),
});

const serviceCIDR: fc.Arbitrary<ServiceCIDR> = fc.record({
  name,
  cidrs: fc.array(cidr, { maxLength: 2 }),
});

/** Any state that a cache may hold. */
export const anyState: fc.Arbitrary<StateObjects> = fc.record({
  services: keyed(service),
  slices: keyed(slice),
  node: fc.option(node, { nil: undefined }),
  serviceCIDRs: keyed(serviceCIDR),
});

function keyed<T extends { readonly namespace?: string; readonly name: string }>(
  object: fc.Arbitrary<T>,
): fc.Arbitrary<ReadonlyMap<string, T>> {
  return fc.uniqueArray(object, { maxLength: 4, selector: objectKey })
    .map((objects) => new Map(objects.map((each) => [objectKey(each), each])));
}

/** A state of some Services, each with one slice of so many endpoints; every value is its own. */
export function stateOf(
  { services: count, endpoints = 1 }: { readonly services: number; readonly endpoints?: number },
): StateObjects {
  const services = new Map<string, Service>();
  const slices = new Map<string, EndpointSlice>();
  for (let i = 0; i < count; i++) {
    const ownName = `web-${i}`;
    const service = modelService({
      name: ownName,
      uid: `3e7c1f9a-0000-4000-8000-${String(i).padStart(12, "0")}`,
      created: HEADER.written + i,
      clusterIPs: [`10.96.${i >> 8 & 255}.${i & 255}`],
      ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 0 }],
    });
    services.set(`default/${ownName}`, service);
    const slice = modelSlice({
      name: `${ownName}-x`,
      serviceName: ownName,
      ports: [{ name: "http", protocol: "tcp", port: 8080 }],
      endpoints: Array.from(
        { length: endpoints },
        (_, j) => modelEndpoint(`10.244.${i & 255}.${j & 255}`, { nodeName: `node-${j % 3}` }),
      ),
    });
    slices.set(`default/${ownName}-x`, slice);
  }
  return { services, slices, node: undefined, serviceCIDRs: new Map() };
}

export function textOf(objects: StateObjects, header: StateHeader = HEADER): string {
  return [...stateLines(objects, header)].join("");
}

/** Reads a whole text, as this node. */
export function readText(text: string): SavedState {
  const reader = new StateReader({ nodeName: NODE_NAME, decode: createDecoder() });
  reader.push(text);
  return reader.finish();
}

export function eventsOf(objects: StateObjects): ReplaceEvent[] {
  const { node } = objects;
  const maps = {
    Service: objects.services,
    EndpointSlice: objects.slices,
    Node: new Map(node ? [[node.name, node]] : []),
    ServiceCIDR: objects.serviceCIDRs,
  };
  return KINDS.map((kind) =>
    replacement(
      kind,
      Array.from<[string, unknown], ObjectChange>(maps[kind], ([key, object]) =>
        ({ type: "upsert", kind, key, object }) as ObjectChange),
    )
  );
}

/** Leaves out what the decoder remarks of an object, such as source ranges of one IP family alone. */
export function withoutOmitted(events: readonly ReplaceEvent[]): unknown[] {
  const bare = (change: ObjectChange) => {
    if (change.type !== "upsert") return change;
    const { omitted: _, ...object } = change.object;
    return { ...change, object };
  };
  return events.map((event) => ({
    ...event,
    changes: new Map([...event.changes].map(([key, change]) => [key, bare(change)])),
  }));
}

/** Returns true if two ports of one Service have something in common that only one can have. */
function sharesWhatIsItsOwn(one: ServicePort, other: ServicePort): boolean {
  if (one.name === other.name) return true;
  const isSameNodePort = one.nodePort !== 0 && one.nodePort === other.nodePort;
  return one.protocol === other.protocol && (one.port === other.port || isSameNodePort);
}
