/**
 * The one table of the sets and maps that signpost makes, a row for each role; `sets.ts` makes names,
 * declarations and keys of it.
 *
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import type { Protocol } from "../../../model/cluster/objects.ts";
import type { KeyType } from "./keys.ts";

/** What the words of nft call an address of a family: `ip` or `ip6`. */
export const NFT_FAMILY: Readonly<Record<Family, "ip" | "ip6">> = { 4: "ip", 6: "ip6" };

/** How a packet from outside finds a service port: by virtual IP or by node port. */
export type FrontendKind = "vip" | "nodeport";

/** Where sets of some kind are apart. */
interface ByFamily {
  readonly family: Family;
}
interface ByFrontend extends ByFamily {
  readonly frontend: FrontendKind;
}
interface ByProtocol extends ByFamily {
  readonly protocol: Protocol;
}
interface BySlots extends ByFrontend, ByProtocol {
  /**
   * Of service ports whose chains are their own: which of `SHARDS` maps has them. The kernel goes
   * through all elements of a map for each chain that is new to it, and through all chains for each
   * new element: in one map for all, that is quadratic. None: the map of the shared chains.
   */
  readonly shard?: number | undefined;
}

/** How many maps each of those is cut into. */
export const SHARDS = 64;

/** What sets are for: what tells those of one role apart, and the type of their keys. */
interface Roles {
  /** Marks of our own transactions, for milliseconds: `nft monitor` tells of them. */
  readonly transactions: { readonly place: object; readonly key: "mark" };
  /** Leads to the chain of a frontend. */
  readonly services: { readonly place: ByFrontend; readonly key: "frontend" };
  /** Leads pods and this node to the cluster's endpoints, under the Local policy. */
  readonly shortCircuits: { readonly place: ByFrontend; readonly key: "frontend" };
  /** Refuses what has no endpoint. */
  readonly noEndpoints: { readonly place: ByFrontend; readonly key: "frontend" };
  /** Rejects node ports on loopback that no listener serves. */
  readonly localhostRejects: { readonly place: ByFamily; readonly key: "frontend" };
  readonly clusterIPs: { readonly place: ByFamily; readonly key: "address" };
  readonly serviceCIDRs: { readonly place: ByFamily; readonly key: "range" };
  /** The node's own addresses, where its programs are meant to be reached. */
  readonly ownAddresses: { readonly place: ByFamily; readonly key: "address" };
  /** External and load-balancer IPs. */
  readonly externalIPs: { readonly place: ByFamily; readonly key: "address" };
  /** Health-check node ports, which answer on virtual IPs, too. */
  readonly healthChecks: { readonly place: object; readonly key: "frontend" };
  /** Endpoints whose own connections may come back to them through this node. */
  readonly hairpins: { readonly place: ByFamily; readonly key: "addressPair" };
  readonly endpoints: { readonly place: BySlots; readonly key: "slot" };
  readonly localEndpoints: { readonly place: BySlots; readonly key: "slot" };
  /** Leads to the chain that looks into the source ranges. */
  readonly firewalls: { readonly place: ByFamily; readonly key: "frontend" };
  readonly sourceRanges: { readonly place: ByProtocol; readonly key: "sourceRange" };
  /** Clients that session affinity keeps on an endpoint. */
  readonly affinityClients: {
    readonly place: ByFamily & {
      /** Which endpoint of which service port. */
      readonly endpoint: string;
    };
    readonly key: "address";
  };
}

/** What a set or map is for. */
export type SetRole = keyof Roles;

/** What tells a set from others of its role. */
export type PlaceOf<R extends SetRole> = Roles[R]["place"];

/** The type of a role's keys. */
export type KeyTypeOf<R extends SetRole> = Roles[R]["key"];

/** All that any place may have. */
export type AnyPlace = Partial<BySlots & PlaceOf<"affinityClients">>;

/** What holds for all sets of a role. */
export interface AnyRow {
  readonly keyType: KeyType;
  readonly kind: "set" | "map";
  /** The names, without what tells them apart by protocol, family, shard and endpoint. */
  readonly stems: Readonly<Partial<Record<FrontendKind | "all", string>>>;
  readonly apartBy: "nothing" | "family" | "protocol" | "endpoint";
  /** `always`: it is in every table; `needed`: it is there while a service port needs it. */
  readonly lifetime: "always" | "needed";
  /**
   * Where an element comes from: from the one service port that holds the claim to it; from any
   * number of `services`, as long as one needs it; from the `node`; or from the `kernel`, by rules
   * and timeouts, so that no state says what it should hold.
   */
  readonly filledBy: "owner" | "services" | "node" | "kernel";
  readonly body: (place: AnyPlace) => string;
}

/** The row of one role: it has what the role's places and keys ask for. */
interface Row<R extends SetRole> extends AnyRow {
  readonly keyType: KeyTypeOf<R>;
  readonly stems: PlaceOf<R> extends ByFrontend ? Readonly<Record<FrontendKind, string>>
    : { readonly all: string };
  readonly apartBy: PlaceOf<R> extends ByProtocol ? "protocol"
    : PlaceOf<R> extends PlaceOf<"affinityClients"> ? "endpoint"
    : PlaceOf<R> extends ByFamily ? "family"
    : "nothing";
}

/**
 * The type of a frontend's key. `tcp dport` stands for the port of any protocol: `th dport` in
 * `typeof` does not survive a re-read by nft 1.0.6.
 */
function verdicts({ family, frontend = "vip" }: AnyPlace): string {
  const daddr = frontend === "vip" ? `${ipOf(family)} daddr . ` : "";
  return `typeof ${daddr}meta l4proto . tcp dport : verdict`;
}

/**
 * The maps are apart by protocol. A map with `tcp dport` in its data gives the first rule of a
 * script that names it a hidden `meta l4proto tcp` (nft 1.0.6), and UDP would miss.
 */
function slots({ family, frontend, protocol }: AnyPlace): string {
  const daddr = frontend === "vip" ? `${ipOf(family)} daddr . ` : "";
  const port = `${protocol} dport`;
  return `typeof ${daddr}${port} . numgen random mod 2 : ${ipOf(family)} daddr . ${port}`;
}

function ipOf(family: Family | undefined): string {
  return NFT_FAMILY[family ?? 4];
}

/** The table. */
export const ROWS: { readonly [R in SetRole]: Row<R> } = {
  transactions: {
    keyType: "mark",
    kind: "set",
    stems: { all: "transactions" },
    apartBy: "nothing",
    lifetime: "always",
    filledBy: "kernel",
    body: () => "typeof meta mark; flags timeout; gc-interval 10s",
  },
  services: {
    keyType: "frontend",
    kind: "map",
    stems: { vip: "services", nodeport: "nodeports" },
    apartBy: "family",
    lifetime: "always",
    filledBy: "owner",
    body: verdicts,
  },
  shortCircuits: {
    keyType: "frontend",
    kind: "map",
    stems: { vip: "short-circuits", nodeport: "nodeport-short-circuits" },
    apartBy: "family",
    lifetime: "always",
    filledBy: "owner",
    body: verdicts,
  },
  noEndpoints: {
    keyType: "frontend",
    kind: "map",
    stems: { vip: "no-endpoints", nodeport: "no-endpoint-nodeports" },
    apartBy: "family",
    lifetime: "always",
    filledBy: "owner",
    body: verdicts,
  },
  localhostRejects: {
    keyType: "frontend",
    kind: "map",
    stems: { all: "localhost-nodeports" },
    apartBy: "family",
    lifetime: "needed",
    filledBy: "owner",
    body: (place) => verdicts({ ...place, frontend: "nodeport" }),
  },
  clusterIPs: {
    keyType: "address",
    kind: "set",
    stems: { all: "cluster-ips" },
    apartBy: "family",
    lifetime: "always",
    filledBy: "services",
    body: ({ family }) => `typeof ${ipOf(family)} daddr`,
  },
  serviceCIDRs: {
    keyType: "range",
    kind: "set",
    stems: { all: "service-cidrs" },
    apartBy: "family",
    lifetime: "always",
    filledBy: "node",
    body: ({ family }) => `typeof ${ipOf(family)} daddr; flags interval`,
  },
  ownAddresses: {
    keyType: "address",
    kind: "set",
    stems: { all: "own-addresses" },
    apartBy: "family",
    lifetime: "always",
    filledBy: "node",
    body: ({ family }) => `typeof ${ipOf(family)} daddr`,
  },
  externalIPs: {
    keyType: "address",
    kind: "set",
    stems: { all: "external-ips" },
    apartBy: "family",
    lifetime: "always",
    filledBy: "services",
    body: ({ family }) => `typeof ${ipOf(family)} daddr`,
  },
  healthChecks: {
    keyType: "frontend",
    kind: "set",
    stems: { all: "health-checks" },
    apartBy: "nothing",
    lifetime: "always",
    filledBy: "services",
    body: () => "typeof meta l4proto . tcp dport",
  },
  hairpins: {
    keyType: "addressPair",
    kind: "set",
    stems: { all: "hairpins" },
    apartBy: "family",
    lifetime: "always",
    filledBy: "services",
    body: ({ family }) => `typeof ${ipOf(family)} saddr . ${ipOf(family)} daddr`,
  },
  endpoints: {
    keyType: "slot",
    kind: "map",
    stems: { vip: "endpoints", nodeport: "nodeport-endpoints" },
    apartBy: "protocol",
    lifetime: "needed",
    filledBy: "owner",
    body: slots,
  },
  localEndpoints: {
    keyType: "slot",
    kind: "map",
    stems: { vip: "local-endpoints", nodeport: "nodeport-local-endpoints" },
    apartBy: "protocol",
    lifetime: "needed",
    filledBy: "owner",
    body: slots,
  },
  firewalls: {
    keyType: "frontend",
    kind: "map",
    stems: { all: "firewalls" },
    apartBy: "family",
    lifetime: "needed",
    filledBy: "owner",
    body: verdicts,
  },
  sourceRanges: {
    keyType: "sourceRange",
    kind: "set",
    stems: { all: "source-ranges" },
    apartBy: "protocol",
    lifetime: "needed",
    filledBy: "owner",
    body: ({ family, protocol }) =>
      `typeof ${ipOf(family)} daddr . ${protocol} dport . ${ipOf(family)} saddr; flags interval`,
  },
  affinityClients: {
    keyType: "address",
    kind: "set",
    stems: { all: "affinity" },
    apartBy: "endpoint",
    lifetime: "needed",
    filledBy: "kernel",
    body: ({ family }) => `typeof ${ipOf(family)} saddr; flags dynamic,timeout`,
  },
};
