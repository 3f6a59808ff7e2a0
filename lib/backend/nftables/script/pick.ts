/**
 * How a connection gets its endpoint: by a random slot, or by session affinity.
 *
 * @module
 */
import type { DesiredServicePort, Destination } from "../../../model/kernel/desired.ts";
import type { TrafficPolicy } from "../../../model/cluster/objects.ts";
import { shortHash } from "../../../model/values/hash.ts";
import { hostPort } from "../../../model/cluster/names.ts";
import { type Chain, type NamedSet, NFT_FAMILY, type Slots, type TableObject } from "./objects.ts";

/** The maps that hold slots, without protocol and family. */
export type EndpointMap =
  | "endpoints"
  | "local-endpoints"
  | "nodeport-endpoints"
  | "nodeport-local-endpoints";

/** One frontend of a service port under one policy. */
export interface PickOptions {
  readonly policy: TrafficPolicy;
  /** Where its slots are. */
  readonly map: EndpointMap;
  /** The virtual IP; `undefined` for a node port. */
  readonly address: string | undefined;
}

/** Where to send a packet, and the objects that it takes. */
export interface Pick {
  readonly chain: string;
  /** What tells this choice from others in the names of chains: `4-tcp-2`, or the service port's own name. */
  readonly suffix: string;
  readonly objects: readonly TableObject[];
}

/** The endpoints that a policy uses. */
export function endpointsFor(
  port: DesiredServicePort,
  policy: TrafficPolicy,
): readonly Destination[] {
  return policy === "Local" ? port.localEndpoints : port.clusterEndpoints;
}

/** The choice among the endpoints of one policy; `undefined` where there are none. */
export function pickFor(port: DesiredServicePort, options: PickOptions): Pick | undefined {
  const endpoints = endpointsFor(port, options.policy);
  if (endpoints.length === 0) return undefined;
  return port.affinitySeconds > 0 ? affinityPick(port, options) : slotPick(port, options);
}

/**
 * A chain for each number of endpoints, shared by all services that have so many. Where there is
 * more than one, a second rule is for a packet that read the old number and then finds the last
 * slot gone: slot 0 is there as long as there is an endpoint.
 *
 * The maps are apart by protocol. A map with `tcp dport` in its data gives the first rule of a
 * script that names it a hidden `meta l4proto tcp` (nft 1.0.6), and UDP would miss.
 */
function slotPick(port: DesiredServicePort, { policy, map, address }: PickOptions): Pick {
  const { family, protocol } = port;
  const destinations = endpointsFor(port, policy);
  const ip = NFT_FAMILY[family];
  const frontend = address === undefined ? `${protocol} dport` : `${ip} daddr . ${protocol} dport`;
  const set: NamedSet = {
    type: "set",
    kind: "map",
    name: `${map}-${protocol}${family}`,
    body: `typeof ${frontend} . numgen random mod 2 : ${ip} daddr . ${protocol} dport`,
  };
  const suffix = `${family}-${protocol}-${destinations.length}`;
  const dnat = (modulus: number) =>
    `dnat ${ip} to ${frontend} . numgen random mod ${modulus} map @${set.name}`;
  const chain: Chain = {
    type: "chain",
    name: `pick-${map}${suffix}`,
    rules: destinations.length === 1 ? [dnat(1)] : [dnat(destinations.length), dnat(1)],
  };
  const key = address === undefined ? `${port.nodePort}` : `${address} . ${port.port}`;
  const slots: Slots = { type: "slots", set: set.name, key, destinations };
  return { chain: chain.name, suffix, objects: [set, chain, slots] };
}

/**
 * A chain that looks for the client in each endpoint's set, and picks at random where it is in none.
 *
 * Where endpoints change, it gets other rules. A packet that is under way meanwhile keeps the old ones,
 * but finds their map empty already: the last rule is for it.
 */
function affinityPick(port: DesiredServicePort, { policy }: PickOptions): Pick {
  const suffix = `${port.family}-${affinityName(port, "")}`;
  const endpoints = endpointsFor(port, policy).map((each) => affinityEndpoint(port, each));
  const saddr = `${NFT_FAMILY[port.family]} saddr`;
  const choices = endpoints.map(({ chain }, i) => `${i} : goto ${chain.name}`);
  const dispatch: Chain = {
    type: "chain",
    name: `${policy === "Local" ? "affinity-local" : "affinity"}${suffix}`,
    rules: [
      ...endpoints.map(({ set, chain }) => `${saddr} @${set.name} goto ${chain.name}`),
      `numgen random mod ${endpoints.length} vmap { ${choices.join(", ")} }`,
      ...endpoints.slice(0, 1).map(({ chain }) => `goto ${chain.name}`),
    ],
  };
  const objects = endpoints.flatMap(({ set, chain }): TableObject[] => [set, chain]);
  return { chain: dispatch.name, suffix, objects: [...objects, dispatch] };
}

/** How the names of sets begin whose elements are the clients of an endpoint. */
export const AFFINITY_SET = "affinity";

/** The name of the set whose elements are the clients that stay on an endpoint. */
export function affinitySetName(
  port: DesiredServicePort,
  endpoint: Omit<Destination, "local" | "hairpin">,
): string {
  return `${AFFINITY_SET}${port.family}-${affinityEndpointName(port, endpoint)}`;
}

function affinityEndpointName(
  port: DesiredServicePort,
  { address, port: number }: Omit<Destination, "local" | "hairpin">,
): string {
  return affinityName(port, `__${hostPort(address, number)}`);
}

function affinityEndpoint(port: DesiredServicePort, { address, port: number }: Destination) {
  const { family, protocol, affinitySeconds } = port;
  const name = affinityEndpointName(port, { address, port: number });
  const ip = NFT_FAMILY[family];
  const set: NamedSet = {
    type: "set",
    kind: "set",
    name: affinitySetName(port, { address, port: number }),
    body: `typeof ${ip} saddr; flags dynamic,timeout`,
  };
  const chain: Chain = {
    type: "chain",
    name: `endpoint${family}-${name}`,
    rules: [
      `update @${set.name} { ${ip} saddr timeout ${affinitySeconds}s }`,
      `meta l4proto ${protocol} dnat ${ip} to ${hostPort(address, number)}`,
    ],
  };
  return { set, chain };
}

/** The kernel takes names of up to 255 bytes; the hash keeps shortened ones apart. */
const MAX_NAME = 200;

/** A readable name with a hash in front, as kube-proxy forms them: `5OJB2KTY-ns/svc/tcp/http`. */
function affinityName({ name, protocol }: DesiredServicePort, tail: string): string {
  const [service = "", port = ""] = name.split(":");
  const readable = `${service}/${protocol}/${port}${tail}`.replaceAll(":", ".").replaceAll(
    /[[\]]/g,
    "",
  );
  return `${shortHash(readable, 8)}-${readable}`.slice(0, MAX_NAME);
}
