/** Gives a connection its endpoint: by a slot that its scheduler chooses, or by session affinity. */
import {
  type DesiredServicePort,
  type Destination,
  endpointsFor,
} from "../../model/kernel/desired.ts";
import type { TrafficPolicy } from "../../model/cluster/objects.ts";
import { slotsFor } from "../../model/cluster/scheduler.ts";
import { hash32, shortHash } from "../../model/values/hash.ts";
import { hostPort } from "../../model/cluster/names.ts";
import { type FrontendKey, type FrontendKind, SHARDS, type TableSet, tableSet } from "./sets.ts";
import { type Chain, chain, type Slots, type TableObject } from "./table.ts";
import { NFT_FAMILY } from "../../model/values/address.ts";

export interface Frontend {
  readonly kind: FrontendKind;
  readonly key: FrontendKey;
}

interface PickOptions {
  readonly policy: TrafficPolicy;
  readonly map: "endpoints" | "localEndpoints";
  readonly frontend: Frontend;
}

interface EndpointPick {
  readonly chain: string;
  /** Ends the names of chains: `4-tcp-2`, or the service port's own name. */
  readonly suffix: string;
  readonly objects: readonly TableObject[];
}

/** Returns the choice among the endpoints of one policy; `undefined` without endpoints. */
export function pickFor(port: DesiredServicePort, options: PickOptions): EndpointPick | undefined {
  const endpoints = endpointsFor(port, options.policy);
  if (endpoints.length === 0) return undefined;
  return port.affinitySeconds > 0
    ? affinityPick(port, options)
    : slotPick(port, { ...options, spread: spreadOf(port, options.policy) });
}

interface Spread {
  readonly expression: string;
  readonly destinations: readonly Destination[];
  /** Ends the names of chains: two chains of one name and kind of map have the same rules. */
  readonly suffix: string;
  /** The number of the map with the slots, see `sets.ts`. */
  readonly shard?: number;
}

/** The same for all nodes. Nodes of different byte orders choose differently: the kernel's hash depends on it. */
const HASH_SEED = "0x7369676e";
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
      // A single endpoint has its slot in the map of several endpoints: the slot stays when more endpoints come.
      const shard = hash32(port.name, SHARD_SEED) % SHARDS;
      if (count === 1) {
        return { ...random, shard, suffix: `${family}-${protocol}-turns-${shard}-1` };
      }
      // A shared counter would skip endpoints: connections to other Services advance it too.
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

/** Returns a chain that picks a slot. The second rule serves packets whose slot is gone: slot 0 stays. */
function slotPick(
  port: DesiredServicePort,
  { map, frontend, spread }: PickOptions & { readonly spread: Spread },
): EndpointPick {
  const { family, protocol } = port;
  const { expression, destinations, suffix, shard } = spread;
  const ip = NFT_FAMILY[family];
  const { kind, key } = frontend;
  const set = tableSet(map, { frontend: kind, protocol, family, shard });
  const packet = kind === "vip" ? `${ip} daddr . ${protocol} dport` : `${protocol} dport`;
  const dnat = (slot: string) => `dnat ${ip} to ${packet} . ${slot} map @${set.name}`;
  const first = dnat("numgen random mod 1");
  const rules = destinations.length === 1 ? [first] : [dnat(expression), first];
  const picking = chain(`pick-${set.stem}${suffix}`, rules);
  const slots: Slots = { type: "slots", set, key, first: 0, destinations };
  return { chain: picking.name, suffix, objects: [set, picking, slots] };
}

/**
 * Returns a chain that looks for the client in each endpoint's set, else picks at random. Its rules do not use a
 * verdict map: nft 1.0.6 crashes on a map that nft 1.1.3 wrote.
 */
function affinityPick(port: DesiredServicePort, { policy }: PickOptions): EndpointPick {
  const suffix = `${port.family}-${affinityName(port, "")}`;
  const saddr = `${NFT_FAMILY[port.family]} saddr`;
  // Sorted, so that the rules do not depend on the order of the endpoints.
  const endpoints = endpointsFor(port, policy).map((each) => affinityEndpoint(port, each))
    .sort((a, b) => a.chain.name < b.chain.name ? -1 : 1);
  const dispatch = chain(`${policy === "Local" ? "affinity-local" : "affinity"}${suffix}`, [
    ...endpoints.map(({ set, chain }) => `${saddr} @${set.name} goto ${chain.name}`),
    ...endpoints.map(({ chain }, i) => {
      const left = endpoints.length - i;
      return `${left > 1 ? `numgen random mod ${left} 0 ` : ""}goto ${chain.name}`;
    }),
  ]);
  const objects = endpoints.flatMap(({ set, chain }): TableObject[] => [set, chain]);
  return { chain: dispatch.name, suffix, objects: [...objects, dispatch] };
}

/** Returns the set of the clients that stay on an endpoint, and the chain that adds them. */
export function affinityEndpoint(
  port: DesiredServicePort,
  { address, port: number }: Named,
): { readonly set: TableSet; readonly chain: Chain } {
  const { family, protocol, affinitySeconds } = port;
  const name = affinityName(port, `__${hostPort(address, number)}`);
  const ip = NFT_FAMILY[family];
  const set = tableSet("affinityClients", { family, endpoint: name });
  const rules = [
    `update @${set.name} { ${ip} saddr timeout ${affinitySeconds}s }`,
    `meta l4proto ${protocol} dnat ${ip} to ${hostPort(address, number)}`,
  ];
  return { set, chain: chain(`endpoint${family}-${name}`, rules) };
}

/** The kernel takes names of up to 255 bytes; the hash keeps shortened names apart. */
const MAX_NAME = 200;

/** Returns a readable name with a hash in front, as kube-proxy does: `5OJB2KTY-ns/svc/tcp/http`. */
function affinityName({ name, protocol }: DesiredServicePort, tail: string): string {
  const [service = "", port = ""] = name.split(":");
  const readable = `${service}/${protocol}/${port}${tail}`.replaceAll(":", ".").replaceAll(
    /[[\]]/g,
    "",
  );
  return `${shortHash(readable, 8)}-${readable}`.slice(0, MAX_NAME);
}

interface Named {
  readonly address: string;
  readonly port: number;
}

/**
 * Returns the lookup table of Maglev, section 3.4 (Eisenbud et al., NSDI 2016), in 32-bit integers, so that all nodes
 * agree. If an endpoint goes, the remaining endpoints keep most of their slots. @param size a prime
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
  return [...table].sort(([a], [b]) => a - b).map(([, endpoint]) => endpoint);
}

/** Two unrelated hashes of one name. Nodes of all versions must agree on them. */
const OFFSET_SEED = 1;
const SKIP_SEED = 2;

function byName(a: Named, b: Named): number {
  if (a.address === b.address) return a.port - b.port;
  return a.address < b.address ? -1 : 1;
}
