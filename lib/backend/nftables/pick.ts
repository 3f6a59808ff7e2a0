/**
 * Gives a connection its endpoint: by a slot that its scheduler chooses, or by session affinity.
 *
 * @module
 */
import {
  type DesiredServicePort,
  type Destination,
  endpointsFor,
} from "../../model/kernel/desired.ts";
import type { TrafficPolicy } from "../../model/cluster/objects.ts";
import { slotsFor } from "../../model/cluster/scheduler.ts";
import { hash32, shortHash } from "../../model/values/hash.ts";
import { hostPort } from "../../model/cluster/names.ts";
import type { FrontendKey } from "./keys.ts";
import type { Chain, Slots, TableObject } from "./table.ts";
import { type FrontendKind, SHARDS, type TableSet, tableSet } from "./sets.ts";
import { NFT_FAMILY } from "../../model/values/address.ts";

/** A way to reach a service port: a virtual IP or a node port. */
export interface Frontend {
  readonly kind: FrontendKind;
  readonly key: FrontendKey;
}

/** One frontend of a service port under one policy. */
export interface PickOptions {
  readonly policy: TrafficPolicy;
  /** The map that its slots are in. */
  readonly map: "endpoints" | "localEndpoints";
  readonly frontend: Frontend;
}

/** The chain that picks an endpoint, with all objects that it needs. */
export interface Pick {
  readonly chain: string;
  /** The end of the names of chains: `4-tcp-2`, or the service port's own name. */
  readonly suffix: string;
  readonly objects: readonly TableObject[];
}

/** Returns the choice among the endpoints of one policy; `undefined` if there are none. */
export function pickFor(port: DesiredServicePort, options: PickOptions): Pick | undefined {
  const endpoints = endpointsFor(port, options.policy);
  if (endpoints.length === 0) return undefined;
  return port.affinitySeconds > 0
    ? affinityPick(port, options)
    : slotPick(port, { ...options, spread: spreadOf(port, options.policy) });
}

/** The choice of a slot. */
interface Spread {
  /** Gives the slot of a connection. */
  readonly expression: string;
  /** The destination of each slot. */
  readonly destinations: readonly Destination[];
  /** Ends the names of the chains: two chains of one name and kind of map have the same rules. */
  readonly suffix: string;
  /** The map that has the slots, see `sets.ts`. */
  readonly shard?: number;
}

/**
 * The same for all nodes: each sends a client to the same slot. The kernel's hash depends on the order
 * of bytes in its words: nodes of both orders do not agree.
 */
const HASH_SEED = "0x7369676e";
/** A seed of its own, for the shards. */
const SHARD_SEED = 3;

function spreadOf(port: DesiredServicePort, policy: TrafficPolicy): Spread {
  const { family, protocol, scheduler } = port;
  const endpoints = endpointsFor(port, policy);
  const count = endpoints.length;
  const random = {
    expression: `numgen random mod ${count}`,
    destinations: endpoints,
    suffix: `${family}-${protocol}-${count}`,
  };
  switch (scheduler?.type) {
    case undefined:
      return random;
    case "round-robin": {
      // One endpoint is in the same map as more: its slot stays when others come.
      const shard = hash32(port.name, SHARD_SEED) % SHARDS;
      if (count === 1) {
        return { ...random, shard, suffix: `${family}-${protocol}-turns-${shard}-1` };
      }
      // A counter that Services share would skip endpoints: others count between two connections.
      const list = policy === "Local" ? "local-turns" : "turns";
      return {
        expression: `numgen inc mod ${count}`,
        destinations: endpoints,
        shard,
        suffix: `${family}-${list}-${affinityName(port, "")}`,
      };
    }
    case "consistent-hash": {
      const size = slotsFor(count, scheduler);
      const bySource = scheduler.hash === "source";
      const source = `${NFT_FAMILY[family]} saddr${bySource ? "" : ` . ${protocol} sport`}`;
      return {
        expression: `jhash ${source} mod ${size} seed ${HASH_SEED}`,
        destinations: maglevTable(endpoints, size),
        suffix: `${family}-${protocol}-${bySource ? "source" : "source-port"}-${size}`,
      };
    }
  }
}

/**
 * Returns a chain for a way to choose and a number of slots, which services share; round-robin ports have their own.
 * A second rule is for a packet that read the old number and finds its slot gone: slot 0 stays while there is an endpoint.
 */
function slotPick(
  port: DesiredServicePort,
  { map, frontend, spread }: PickOptions & { readonly spread: Spread },
): Pick {
  const { family, protocol } = port;
  const { expression, destinations, suffix, shard } = spread;
  const ip = NFT_FAMILY[family];
  const { kind, key } = frontend;
  const set = tableSet(map, { frontend: kind, protocol, family, shard });
  const packet = kind === "vip" ? `${ip} daddr . ${protocol} dport` : `${protocol} dport`;
  const dnat = (slot: string) => `dnat ${ip} to ${packet} . ${slot} map @${set.name}`;
  const first = dnat("numgen random mod 1");
  const chain: Chain = {
    type: "chain",
    role: "dnat",
    name: `pick-${set.stem}${suffix}`,
    rules: destinations.length === 1 ? [first] : [dnat(expression), first],
  };
  const slots: Slots = { type: "slots", set, key, first: 0, destinations };
  return { chain: chain.name, suffix, objects: [set, chain, slots] };
}

/**
 * Returns a chain that looks for the client in each endpoint's set, and else picks at random. It has no map of
 * verdicts: nft 1.0.6 crashes on one in a rule that nft 1.1.3 or newer wrote.
 */
function affinityPick(port: DesiredServicePort, { policy }: PickOptions): Pick {
  const suffix = `${port.family}-${affinityName(port, "")}`;
  const endpoints = endpointsFor(port, policy).map((each) => affinityEndpoint(port, each));
  const saddr = `${NFT_FAMILY[port.family]} saddr`;
  // Sorted: the rules do not depend on the order in which endpoints came.
  const names = endpoints.map(({ chain }) => chain.name).sort();
  const dispatch: Chain = {
    type: "chain",
    role: "affinity",
    name: `${policy === "Local" ? "affinity-local" : "affinity"}${suffix}`,
    rules: [
      ...endpoints.map(({ set, chain }) => `${saddr} @${set.name} goto ${chain.name}`),
      ...names.slice(0, -1).map((name, i) =>
        `numgen random mod ${names.length - i} 0 goto ${name}`
      ),
      ...names.slice(-1).map((name) => `goto ${name}`),
    ],
    lookUps: endpoints.length,
  };
  const objects = endpoints.flatMap(({ set, chain }): TableObject[] => [set, chain]);
  return { chain: dispatch.name, suffix, objects: [...objects, dispatch] };
}

/** Returns the set of the clients that stay on an endpoint. */
export function affinitySet(
  port: DesiredServicePort,
  endpoint: Omit<Destination, "local" | "hairpin">,
): TableSet {
  const { family } = port;
  return tableSet("affinityClients", { family, endpoint: affinityEndpointName(port, endpoint) });
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
  const set = tableSet("affinityClients", { family, endpoint: name });
  const chain: Chain = {
    type: "chain",
    role: "dnat",
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

/** Identifies an endpoint. */
interface Named {
  readonly address: string;
  readonly port: number;
}

/**
 * Returns the lookup table of consistent hashing: Maglev, section 3.4 (Eisenbud et al., NSDI 2016).
 *
 * Endpoints take turns, each in its own order of the slots. In its turn an endpoint takes its first
 * free slot. All get the same number, plus or minus one. If an endpoint goes, most slots of the others
 * stay. Every node computes the same table: it uses only 32-bit integers.
 *
 * @param endpoints in any order; none: an empty table
 * @param size the number of slots, a prime
 * @returns the endpoint of each slot
 */
export function maglevTable<T extends Named>(endpoints: readonly T[], size: number): readonly T[] {
  if (endpoints.length === 0) return [];
  const turns = [...endpoints].sort(byName).map((endpoint) => {
    const name = `${endpoint.address} ${endpoint.port}`;
    return {
      endpoint,
      slot: hash32(name, OFFSET_SEED) % size,
      skip: hash32(name, SKIP_SEED) % (size - 1) + 1,
    };
  });
  const table = new Map<number, T>();
  while (table.size < size) {
    for (const turn of turns) {
      if (table.size === size) break;
      while (table.has(turn.slot)) turn.slot = (turn.slot + turn.skip) % size;
      table.set(turn.slot, turn.endpoint);
    }
  }
  return [...table].sort(([one], [other]) => one - other).map(([, endpoint]) => endpoint);
}

/** Two hashes of one name that have nothing to do with each other. Nodes of all versions must agree on them. */
const OFFSET_SEED = 1;
const SKIP_SEED = 2;

function byName(one: Named, other: Named): number {
  if (one.address === other.address) return one.port - other.port;
  return one.address < other.address ? -1 : 1;
}
