/**
 * Declares the sets and maps of the table in one record, from which names and declarations are made.
 *
 * @module
 */
import { FAMILIES, type Family, NFT_FAMILY } from "../../model/values/address.ts";
import type { DesiredNode } from "../../model/kernel/desired.ts";
import { type Protocol, PROTOCOLS } from "../../model/cluster/objects.ts";
import type { KeyType } from "./keys.ts";

/** Names the ways from outside to a service port: a virtual IP or a node port. */
export type FrontendKind = "vip" | "nodeport";

/** Is the number of maps that hold the slots of service ports with chains of their own. */
export const SHARDS = 64;

/** Tells the sets of one role apart. */
interface Place {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly frontend: FrontendKind;
  /**
   * The map of `SHARDS`, for service ports with chains of their own; `undefined`: the map of the
   * shared chains. The kernel goes through all elements of a map for each new chain, and through all
   * chains for each new element. One map for all would be quadratic.
   */
  readonly shard?: number | undefined;
  /** The endpoint and its service port. */
  readonly endpoint: string;
}

/** Describes the sets of one role. */
interface Row {
  /** The names without protocol, family, shard and endpoint. */
  readonly stems: Readonly<Partial<Record<FrontendKind | "all", string>>>;
  /** The parts of a place that tell the sets apart. */
  readonly by: readonly (keyof Place)[];
  readonly key: KeyType;
  /**
   * The declaration; `IP` and `PROTOCOL` stand for those of the place. A node port has no address:
   * the first `IP daddr` goes. A body with a colon declares a map.
   */
  readonly body: string;
  /**
   * Names the source of elements: the one service port that holds the claim to it (`owner`); any number of
   * `services`, as long as one needs it; the `node`; or the `kernel`, by rules and timeouts.
   */
  readonly filledBy: "owner" | "services" | "node" | "kernel";
  /**
   * `always`: it is in every table; `accelerated`: in every table with the fast path; `needed`: it is
   * there while a service port needs it.
   */
  readonly lifetime: "always" | "accelerated" | "needed";
  readonly kind?: "flowtable";
}

/**
 * The type of a frontend's key. `tcp dport` stands for the port of any protocol: `th dport` in
 * `typeof` does not survive a re-read by nft 1.0.6.
 */
const VERDICTS = "typeof IP daddr . meta l4proto . tcp dport : verdict";

/**
 * The maps are apart by protocol. A map with `tcp dport` in its data gives the first rule of a
 * script that names it a hidden `meta l4proto tcp` (nft 1.0.6), and UDP would miss.
 */
const SLOTS = "typeof IP daddr . PROTOCOL dport . numgen random mod 2 : IP daddr . PROTOCOL dport";

/** The maps in which packets find the chains of their frontends. */
const FRONTENDS = {
  by: ["frontend", "family"],
  key: "frontend",
  body: VERDICTS,
  filledBy: "owner",
  lifetime: "always",
} as const;

/** The maps of slots. */
const ENDPOINTS = {
  by: ["frontend", "family", "protocol", "shard"],
  key: "slot",
  body: SLOTS,
  filledBy: "owner",
  lifetime: "needed",
} as const;

/** The sets and maps, by role. Their order is the order of the declarations in a script. */
export const ROWS = {
  /** Marks our own transactions for milliseconds: `nft monitor` prints the marks. */
  transactions: {
    stems: { all: "transactions" },
    by: [],
    key: "mark",
    body: "typeof meta mark; flags timeout; gc-interval 10s",
    filledBy: "kernel",
    lifetime: "always",
  },
  /** Leads to the chain of a frontend. */
  services: {
    stems: { vip: "services", nodeport: "nodeports" },
    ...FRONTENDS,
  },
  /** Leads pods and this node to the cluster's endpoints, under the Local policy. */
  shortCircuits: {
    stems: { vip: "short-circuits", nodeport: "nodeport-short-circuits" },
    ...FRONTENDS,
  },
  /** Refuses what has no endpoint. */
  noEndpoints: {
    stems: { vip: "no-endpoints", nodeport: "no-endpoint-nodeports" },
    ...FRONTENDS,
  },
  /** Rejects node ports on loopback that no listener serves. */
  localhostRejects: {
    stems: { all: "localhost-nodeports" },
    by: ["family"],
    key: "frontend",
    body: "typeof meta l4proto . tcp dport : verdict",
    filledBy: "owner",
    lifetime: "needed",
  },
  clusterIPs: {
    stems: { all: "cluster-ips" },
    by: ["family"],
    key: "address",
    body: "typeof IP daddr",
    filledBy: "services",
    lifetime: "always",
  },
  serviceCIDRs: {
    stems: { all: "service-cidrs" },
    by: ["family"],
    key: "range",
    body: "typeof IP daddr; flags interval",
    filledBy: "node",
    lifetime: "always",
  },
  /** Holds the node's own addresses: its programs stay within reach there. */
  ownAddresses: {
    stems: { all: "own-addresses" },
    by: ["family"],
    key: "address",
    body: "typeof IP daddr",
    filledBy: "node",
    lifetime: "always",
  },
  /** Holds external and load-balancer IPs. */
  externalIPs: {
    stems: { all: "external-ips" },
    by: ["family"],
    key: "address",
    body: "typeof IP daddr",
    filledBy: "services",
    lifetime: "always",
  },
  /** Holds health-check node ports, which answer on virtual IPs, too. */
  healthChecks: {
    stems: { all: "health-checks" },
    by: [],
    key: "frontend",
    body: "typeof meta l4proto . tcp dport",
    filledBy: "services",
    lifetime: "always",
  },
  /** Holds endpoints whose own connections may come back to them through this node. */
  hairpins: {
    stems: { all: "hairpins" },
    by: ["family"],
    key: "addressPair",
    body: "typeof IP saddr . IP daddr",
    filledBy: "services",
    lifetime: "always",
  },
  endpoints: {
    stems: { vip: "endpoints", nodeport: "nodeport-endpoints" },
    ...ENDPOINTS,
  },
  localEndpoints: {
    stems: { vip: "local-endpoints", nodeport: "nodeport-local-endpoints" },
    ...ENDPOINTS,
  },
  /** Leads to the chain that checks the source ranges. */
  firewalls: {
    stems: { all: "firewalls" },
    by: ["family"],
    key: "frontend",
    body: VERDICTS,
    filledBy: "owner",
    lifetime: "needed",
  },
  sourceRanges: {
    stems: { all: "source-ranges" },
    by: ["family", "protocol"],
    key: "sourceRange",
    body: "typeof IP daddr . PROTOCOL dport . IP saddr; flags interval",
    filledBy: "owner",
    lifetime: "needed",
  },
  /** Carries long connections past the other hooks. Its devices come and go, see `Devices`. */
  fastPath: {
    stems: { all: "fast-path" },
    by: [],
    key: "foreign",
    body: "hook ingress priority 0; counter",
    filledBy: "kernel",
    lifetime: "accelerated",
    kind: "flowtable",
  },
  /** Holds the frontends whose long connections take the fast path. */
  accelerated: {
    stems: { vip: "accelerated", nodeport: "accelerated-nodeports" },
    by: ["frontend", "family"],
    key: "frontend",
    body: "typeof IP daddr . meta l4proto . tcp dport",
    filledBy: "owner",
    lifetime: "accelerated",
  },
  /** Holds the clients that session affinity keeps on an endpoint. */
  affinityClients: {
    stems: { all: "affinity" },
    by: ["family", "endpoint"],
    key: "address",
    body: "typeof IP saddr; flags dynamic,timeout",
    filledBy: "kernel",
    lifetime: "needed",
  },
} as const satisfies Readonly<Record<string, Row>>;

/** Names the purpose of a set or map. */
export type SetRole = keyof typeof ROWS;

/** Tells a set from others of its role. */
type PlaceOf<R extends SetRole> = Pick<Place, (typeof ROWS)[R]["by"][number]>;

type AnyPlace = { readonly [K in keyof Place]?: Place[K] | undefined };

/** Describes a set or map of the table. */
export interface TableSet {
  readonly type: "set";
  readonly kind: "set" | "map" | "flowtable";
  readonly role: SetRole;
  readonly name: string;
  /** The name without protocol and family, for the names of chains. */
  readonly stem: string;
  /** The text between the braces of its declaration. */
  readonly body: string;
  readonly keyType: KeyType;
  /** See `Row`. */
  readonly filledBy: Row["filledBy"];
  /** `undefined`: both families share it. */
  readonly family: Family | undefined;
  /** `undefined`: protocols share it. */
  readonly protocol: Protocol | undefined;
}

/** All sets by name, but for those of endpoints with session affinity. */
const SETS_BY_NAME: ReadonlyMap<string, TableSet> = new Map(
  ([{ frontend: "vip" }, { frontend: "nodeport" }, {}] as const).flatMap((frontend) =>
    (Object.keys(ROWS) as SetRole[]).flatMap((role) => allSets(role, frontend))
  ).map((set) => [set.name, set]),
);

/** Returns the sets of a role for a kind of frontend, or those for all frontends. */
function allSets(role: SetRole, { frontend }: Pick<AnyPlace, "frontend">): TableSet[] {
  const { stems, by }: Row = ROWS[role];
  if (stems[frontend ?? "all"] === undefined || by.includes("endpoint")) return [];
  const families = by.includes("family") ? FAMILIES : [undefined];
  const protocols = by.includes("protocol") ? PROTOCOLS : [undefined];
  const shards = [undefined, ...(by.includes("shard") ? Array(SHARDS).keys() : [])];
  return families.flatMap((family) =>
    protocols.flatMap((protocol) =>
      shards.map((shard) => makeSet(role, { frontend, family, protocol, shard }))
    )
  );
}

function makeSet(role: SetRole, place: AnyPlace): TableSet {
  const { key, body, filledBy, kind }: Row = ROWS[role];
  const { frontend, family, protocol } = place;
  const ip = NFT_FAMILY[family ?? 4];
  const declared = frontend === "nodeport" ? body.replace("IP daddr . ", "") : body;
  return {
    type: "set",
    kind: kind ?? (body.includes(" : ") ? "map" : "set"),
    role,
    name: nameOf(role, place),
    stem: stemOf(role, place),
    body: declared.replaceAll("IP ", `${ip} `).replaceAll("PROTOCOL", protocol ?? ""),
    keyType: key,
    filledBy,
    family,
    protocol,
  };
}

function stemOf(role: SetRole, { frontend }: AnyPlace): string {
  const { stems }: Row = ROWS[role];
  return stems[frontend ?? "all"] ?? "";
}

function nameOf(role: SetRole, place: AnyPlace): string {
  const { family = "", protocol, shard, endpoint } = place;
  const name = `${stemOf(role, place)}${protocol === undefined ? "" : `-${protocol}`}${family}`;
  if (endpoint !== undefined) return `${name}-${endpoint}`;
  return shard === undefined ? name : `${name}-turns-${shard}`;
}

/** Returns the set of a role at a place. */
export function tableSet<R extends SetRole>(role: R, place: PlaceOf<R>): TableSet {
  return SETS_BY_NAME.get(nameOf(role, place)) ?? makeSet(role, place);
}

/** Matches the sets of endpoints with session affinity: there are as many names as endpoints. */
const AFFINITY_NAME = new RegExp(`^${ROWS.affinityClients.stems.all}([46])-(.+)$`);

/** Returns the set that has a name in nft's text; `undefined` for the sets of other programs. */
export function setNamed(name: string): TableSet | undefined {
  const known = SETS_BY_NAME.get(name);
  if (known !== undefined) return known;
  const [, digit, endpoint = ""] = AFFINITY_NAME.exec(name) ?? [];
  const family = FAMILIES.find((each) => `${each}` === digit);
  return family && tableSet("affinityClients", { family, endpoint });
}

/** The maps in which each connection finds its frontend, and finds it once: their elements may count. */
export const COUNTING_ROLE = "services";

/** Returns the sets that every table of this node has, in the order of their printing. */
export function alwaysThere(
  { ipFamilies, countsConnections, acceleration }: Pick<
    DesiredNode,
    "ipFamilies" | "countsConnections" | "acceleration"
  >,
): readonly TableSet[] {
  const isThere = ({ role }: TableSet) =>
    ROWS[role].lifetime === "always" ||
    (ROWS[role].lifetime === "accelerated" && acceleration !== undefined);
  const all = [...SETS_BY_NAME.values()].filter(isThere)
    .map((set) =>
      countsConnections && set.role === COUNTING_ROLE
        ? { ...set, body: `${set.body}; ${COUNTER}` }
        : set
    );
  return [undefined, ...ipFamilies].flatMap((family) => all.filter((set) => set.family === family));
}

/** Gives each element a counter, in a declaration. */
export const COUNTER = "counter";
