/** One Service of a small cluster, and what explain says of it, without a kernel. */
import { type Inspected, Inspector } from "../../lib/source/objects/inspect.ts";
import type { KernelFacts } from "../../lib/explain/kernel.ts";
import { explainPacket, type Known, type World } from "../../lib/explain/packet.ts";
import { askAbout, explainTarget, packetWithKernel } from "../../lib/explain/packet_report.ts";
import type {
  Outcome,
  PacketReport,
  ServiceReport,
  TraceReport,
} from "../../lib/explain/report.ts";
import { explainService, serviceWithKernel } from "../../lib/explain/service_report.ts";
import type { State } from "../../lib/policy/state.ts";
import type { PacketTarget, Sender } from "../../lib/config/command.ts";
import type { Configuration } from "../../lib/config/configuration.ts";
import type { Finding, ServiceStatus } from "../../lib/model/status.ts";
import type { Family } from "../../lib/model/values/address.ts";
import type { RefusedFeatures } from "../../lib/model/kernel/traits.ts";
import { KINDS } from "../../lib/model/cluster/objects.ts";
import { type ApiObject, NODE_NAME, Pipeline } from "../support/pipeline.ts";
import { backendOf, traitsOf } from "../support/modes.ts";
import {
  type Fields,
  node,
  service,
  serviceCIDR,
  slice as buildSlice,
  type SliceFields,
} from "../support/cluster.ts";

/** The node's address, and one of its pods'. */
export const NODE_ADDRESS = "192.168.0.2";
export const POD = "10.244.0.10";

/** The Node under test in `zone-a`, and the ServiceCIDR. */
export const CLUSTER: readonly ApiObject[] = [
  node({
    labels: { "topology.kubernetes.io/zone": "zone-a" },
    spec: { podCIDRs: ["10.244.0.0/24"] },
    addresses: [NODE_ADDRESS],
  }),
  serviceCIDR({ cidrs: ["10.96.0.0/16"] }),
];

/** The Service `shop/web`: port 80 named http, target port web, selector app=web. */
export function web(spec: Fields = {}, rest: Fields = {}): ApiObject {
  const object = service({
    namespace: "shop",
    metadata: { creationTimestamp: "2026-01-02T00:00:00Z" },
    clusterIP: "10.96.0.10",
    selector: { app: "web" },
    ports: [{ name: "http", port: 80, targetPort: "web" }],
    ...spec,
  });
  return { ...object, ...rest };
}

/** The Service `shop/old` of the day before, with external IP 192.0.2.30. */
export const OLD: ApiObject = service({
  namespace: "shop",
  name: "old",
  metadata: { creationTimestamp: "2026-01-01T00:00:00Z" },
  clusterIP: "10.96.0.11",
  externalIPs: ["192.0.2.30"],
});

/** A Service of type LoadBalancer at 192.0.2.10, with node port 30080. */
export function loadBalancer(spec: Fields = {}): ApiObject {
  return web({
    type: "LoadBalancer",
    ports: [{ name: "http", port: 80, targetPort: "web", nodePort: 30080 }],
    ...spec,
  }, { status: { loadBalancer: { ingress: [{ ip: "192.0.2.10" }] } } });
}

/** An endpoint of a slice: its address, its node, and what else the slice says of it. */
export function endpoint(address: string, nodeName: string, rest: Fields = {}): Fields {
  return { addresses: [address], nodeName, ...rest };
}

/** Two endpoints, the first on this node. */
export const LOCAL = endpoint("10.244.0.11", NODE_NAME);
export const REMOTE = endpoint("10.244.1.11", "node-2");

/** A slice `shop/web-1` of port http, 8080. */
export function slice(endpoints: readonly Fields[], rest: SliceFields = {}): ApiObject {
  const ports = [{ name: "http", port: 8080 }];
  return buildSlice({ namespace: "shop", ports, endpoints, ...rest });
}

/** The differences from the usual cluster. */
export interface Options {
  readonly configuration?: Partial<Configuration>;
  readonly mode?: "nftables" | "iptables";
  /** Changes a kernel that has no entry of the Service. @default the kernel was not read */
  readonly kernel?: Partial<KernelFacts>;
  readonly port?: string;
  readonly ipFamilies?: readonly Family[];
  readonly refusedFeatures?: RefusedFeatures;
  readonly nodeFindings?: readonly Finding[];
  readonly status?: ServiceStatus;
  /** A trace, or the reason why there is none. */
  readonly trace?: TraceReport | string;
  /** The objects were not seen as they are written. */
  readonly isUnseen?: boolean;
  /** Without the Node and the ServiceCIDR. */
  readonly bare?: boolean;
}

/** The state that some objects lead to, and what packets meet there. */
export function worldOf(
  objects: readonly ApiObject[],
  { configuration, mode = "nftables", bare = false, ipFamilies, refusedFeatures }: Options = {},
): { readonly state: State; readonly world: World; readonly inspected: Inspected } {
  const pipeline = new Pipeline({
    mode,
    ...ipFamilies && { ipFamilies },
    ...refusedFeatures && { refusedFeatures },
    configuration: { clusterCIDRs: ["10.244.0.0/16"], ...configuration },
  });
  const all = bare ? objects : [...CLUSTER, ...objects];
  const { conflicts, refused, overLimit } = pipeline.load(all);
  const inspector = new Inspector("web");
  for (const object of all) {
    const kind = KINDS.find((each) => each === object.kind);
    if (kind) inspector.look(kind, object);
  }
  const { cache, desired } = pipeline;
  const world: World = {
    desired,
    traits: traitsOf(mode),
    ownAddresses: ["127.0.0.1", "::1", NODE_ADDRESS],
    rules: backendOf(mode).rules.describe(desired.node),
  };
  return {
    state: { cache, desired, conflicts, refused: [...refused, ...overLimit] },
    world,
    inspected: inspector.in("shop"),
  };
}

const ORIGIN = { from: "api", asOf: "2026-01-02T03:04:05.000Z" } as const;

/** A kernel, which was not read if the options do not say otherwise. */
function kernelOf({ kernel = { state: "unread", reason: "a test" } }: Options): KernelFacts {
  return { state: "same", reason: "", entries: [], stickyClients: [], kubeProxy: [], ...kernel };
}

/** Gathers the facts that the answers are worked out from. */
export function knownOf(
  { state, world }: ReturnType<typeof worldOf>,
  options: Options = {},
): Known {
  const { configuration, nodeFindings = [] } = options;
  return {
    ...world,
    ...state,
    nodeName: NODE_NAME,
    origin: ORIGIN,
    externalIPsAllowed: configuration?.featureGates?.["AllowServiceExternalIPs"] !== false,
    nodeFindings,
  };
}

/** Explains `shop/web`. */
export function explainWeb(objects: readonly ApiObject[], options: Options = {}): ServiceReport {
  const all = worldOf(objects, options);
  const report = explainService({
    ...knownOf(all, options),
    target: { type: "service", namespace: "shop", name: "web", port: options.port },
    inspected: options.isUnseen ? undefined : all.inspected,
    status: options.status,
  });
  return serviceWithKernel(report, { kernel: kernelOf(options), connections: undefined });
}

/** The causes that explain finds, without what it says of the kernel. */
export function causesOf(objects: readonly ApiObject[], options: Options = {}): string[] {
  return explainWeb(objects, options).findings
    .filter(({ code }) => code !== "kernel-unread")
    .map(({ severity, code, message }) => `${severity} ${code}: ${message}`);
}

/** A packet as `SENDER[ ADDRESS] > ADDRESS:PORT/PROTOCOL`. */
export function outcomeOf(
  packet: string,
  objects: readonly ApiObject[],
  options: Options = {},
): Outcome {
  const match = /^(pod|node|external)(?: (\S+))? > (\S+):(\d+)\/(tcp|udp|sctp)$/.exec(packet);
  const [, sender, source, address = "", port, protocol] = match ?? [];
  if (!match) throw new Error(`no packet: ${packet}`);
  return explainPacket({
    sender: sender as Sender,
    source,
    address,
    port: Number(port),
    protocol: protocol as PacketTarget["protocol"],
  }, worldOf(objects, options).world);
}

/** Explains a packet from a source address, or from a kind of sender. */
export function explainFrom(
  from: { readonly source?: string; readonly from?: Sender },
  objects: readonly ApiObject[],
  options: Options = {},
): PacketReport {
  const known = knownOf(worldOf(objects, options), options);
  const target: PacketTarget = {
    type: "packet",
    source: from.source,
    address: "10.96.0.10",
    port: 80,
    protocol: "tcp",
  };
  const asked = askAbout(target, { ...known, from: from.from });
  return packetWithKernel(explainTarget({ ...known, ...asked }), {
    kernel: kernelOf(options),
    connections: undefined,
    trace: options.trace,
  });
}
