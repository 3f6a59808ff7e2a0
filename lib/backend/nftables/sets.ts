/** Declares the sets and maps of the table in one record, and prints and parses the keys of their elements. */
import { FAMILIES, type Family, NFT_FAMILY } from "../../model/values/address.ts";
import type { DesiredNode } from "../../model/kernel/desired.ts";
import { type Protocol, PROTOCOLS } from "../../model/cluster/objects.ts";
import { frontendKey } from "../../model/cluster/names.ts";

export type FrontendKind = "vip" | "nodeport";

/** The number of maps for the slots of service ports with chains of their own. */
export const SHARDS = 64;

interface Place {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly frontend: FrontendKind;
  /**
   * The number of one of the `SHARDS` maps; `undefined`: the map of the shared chains. For a new chain the kernel
   * walks all elements of its map, and for a new element all chains. A single map would take quadratic time.
   */
  readonly shard?: number | undefined;
  readonly endpoint: string;
}

interface Row {
  readonly stems: Readonly<Partial<Record<FrontendKind | "all", string>>>;
  readonly by: readonly (keyof Place)[];
  readonly key: KeyType;
  /** The declaration, in which `IP` and `PROTOCOL` are replaced. Node ports lose `IP daddr`. A colon makes a map. */
  readonly body: string;
  /** `owner`: the service port with the claim; `services`: any service port; `kernel`: rules and timeouts. */
  readonly filledBy: "owner" | "services" | "node" | "kernel";
  /** `accelerated`: in every table with the fast path; `needed`: while a service port needs it. */
  readonly lifetime: "always" | "accelerated" | "needed";
}

/** Has `tcp dport` for the port of any protocol: nft 1.0.6 cannot read `th dport` back in `typeof`. */
const VERDICTS = "typeof IP daddr . meta l4proto . tcp dport : verdict";

/** Each protocol has its own map: to the first rule with `tcp dport` data, nft 1.0.6 adds a hidden match of TCP. */
const SLOTS = "typeof IP daddr . PROTOCOL dport . numgen random mod 2 : IP daddr . PROTOCOL dport";

const FRONTENDS = {
  by: ["frontend", "family"],
  key: "frontend",
  body: VERDICTS,
  filledBy: "owner",
  lifetime: "always",
} as const;

const NEEDED_FRONTENDS = { ...FRONTENDS, by: ["family"], lifetime: "needed" } as const;

const ADDRESSES = {
  by: ["family"],
  key: "text",
  body: "typeof IP daddr",
  lifetime: "always",
} as const;

const ENDPOINTS = {
  by: ["frontend", "family", "protocol", "shard"],
  key: "slot",
  body: SLOTS,
  filledBy: "owner",
  lifetime: "needed",
} as const;

/** The order is the order of the declarations in a script. */
export const ROWS = {
  /** Marks our own transactions for milliseconds: `nft monitor` prints the marks. */
  transactions: {
    stems: { all: "transactions" },
    by: [],
    key: "text",
    body: "typeof meta mark; flags timeout; gc-interval 10s",
    filledBy: "kernel",
    lifetime: "always",
  },
  services: { stems: { vip: "services", nodeport: "nodeports" }, ...FRONTENDS },
  /** Leads pods and this node to the cluster's endpoints, under the Local policy. */
  shortCircuits: {
    stems: { vip: "short-circuits", nodeport: "nodeport-short-circuits" },
    ...FRONTENDS,
  },
  noEndpoints: {
    stems: { vip: "no-endpoints", nodeport: "no-endpoint-nodeports" },
    ...FRONTENDS,
  },
  localhostRejects: {
    stems: { all: "localhost-nodeports" },
    ...NEEDED_FRONTENDS,
    body: "typeof meta l4proto . tcp dport : verdict",
  },
  clusterIPs: { stems: { all: "cluster-ips" }, ...ADDRESSES, filledBy: "services" },
  serviceCIDRs: {
    stems: { all: "service-cidrs" },
    ...ADDRESSES,
    body: "typeof IP daddr; flags interval",
    filledBy: "node",
  },
  apiServers: { stems: { all: "api-servers" }, ...ADDRESSES, filledBy: "node" },
  hairpins: {
    stems: { all: "hairpins" },
    ...ADDRESSES,
    body: "typeof IP saddr . IP daddr",
    filledBy: "services",
  },
  endpoints: {
    stems: { vip: "endpoints", nodeport: "nodeport-endpoints" },
    ...ENDPOINTS,
  },
  localEndpoints: {
    stems: { vip: "local-endpoints", nodeport: "nodeport-local-endpoints" },
    ...ENDPOINTS,
  },
  firewalls: { stems: { all: "firewalls" }, ...NEEDED_FRONTENDS },
  /** Counts what the source ranges drop. */
  firewallDrops: { stems: { all: "firewall-drops" }, ...NEEDED_FRONTENDS },
  sourceRanges: {
    stems: { all: "source-ranges" },
    by: ["family", "protocol"],
    key: "sourceRange",
    body: "typeof IP daddr . PROTOCOL dport . IP saddr; flags interval",
    filledBy: "owner",
    lifetime: "needed",
  },
  /** Carries long connections past the later hooks. `Devices` adds and removes its devices. */
  fastPath: {
    stems: { all: "fast-path" },
    by: [],
    key: "text",
    body: "hook ingress priority 0; counter",
    filledBy: "kernel",
    lifetime: "accelerated",
  },
  accelerated: {
    stems: { vip: "accelerated", nodeport: "accelerated-nodeports" },
    ...FRONTENDS,
    body: "typeof IP daddr . meta l4proto . tcp dport",
    lifetime: "accelerated",
  },
  affinityClients: {
    stems: { all: "affinity" },
    by: ["family", "endpoint"],
    key: "text",
    body: "typeof IP saddr; flags dynamic,timeout",
    filledBy: "kernel",
    lifetime: "needed",
  },
} as const satisfies Readonly<Record<string, Row>>;

export type SetRole = keyof typeof ROWS;

type PlaceOf<R extends SetRole> = Pick<Place, (typeof ROWS)[R]["by"][number]>;

type AnyPlace = { readonly [K in keyof Place]?: Place[K] | undefined };

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
  readonly filledBy: Row["filledBy"];
  /** `undefined`: both families share it. */
  readonly family: Family | undefined;
  /** `undefined`: protocols share it. */
  readonly protocol: Protocol | undefined;
}

/** All sets but the client sets of session affinity. */
const SETS_BY_NAME: ReadonlyMap<string, TableSet> = new Map(
  ([{ frontend: "vip" }, { frontend: "nodeport" }, {}] as const).flatMap((frontend) =>
    (Object.keys(ROWS) as SetRole[]).flatMap((role) => allSets(role, frontend))
  ).map((set) => [set.name, set]),
);

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
  const { key, body, filledBy }: Row = ROWS[role];
  const { frontend, family, protocol } = place;
  const ip = NFT_FAMILY[family ?? 4];
  const declared = frontend === "nodeport" ? body.replace("IP daddr . ", "") : body;
  return {
    type: "set",
    kind: role === "fastPath" ? "flowtable" : body.includes(" : ") ? "map" : "set",
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

export function tableSet<R extends SetRole>(role: R, place: PlaceOf<R>): TableSet {
  return SETS_BY_NAME.get(nameOf(role, place)) ?? makeSet(role, place);
}

const AFFINITY_NAME = new RegExp(`^${ROWS.affinityClients.stems.all}([46])-(.+)$`);

/** Returns the set of a name; `undefined` for other programs' sets. */
export function setNamed(name: string): TableSet | undefined {
  const known = SETS_BY_NAME.get(name);
  if (known !== undefined) return known;
  const [, digit, endpoint = ""] = AFFINITY_NAME.exec(name) ?? [];
  const family = FAMILIES.find((each) => `${each}` === digit);
  return family && tableSet("affinityClients", { family, endpoint });
}

export function fixedSets(node: DesiredNode): readonly TableSet[] {
  const { ipFamilies, countsConnections, acceleration } = node;
  const lifetimes = ["always", ...acceleration ? ["accelerated"] : []];
  return [undefined, ...ipFamilies].flatMap((family) =>
    SETS_BY_NAME.values().filter((set) =>
      set.family === family && lifetimes.includes(ROWS[set.role].lifetime)
    ).map((set) => countsConnections && isCounting(set) ? withCounters(set) : set).toArray()
  );
}

export const COUNTER = "counter";

/** The maps in which each connection finds its frontend or is refused, once: so their elements may count. */
const COUNTING: ReadonlySet<SetRole> = new Set(["services", "noEndpoints", "firewallDrops"]);

export function isCounting({ role }: TableSet): boolean {
  return COUNTING.has(role);
}

/** Gives each element of a set a counter. */
export function withCounters(set: TableSet): TableSet {
  return { ...set, body: `${set.body}; ${COUNTER}` };
}

export interface FrontendKey {
  readonly type: "frontend";
  /** `undefined`: a node port. */
  readonly address: string | undefined;
  readonly protocol: Protocol;
  readonly port: number;
}

/** Identifies an element in its set. The set names the protocol of `slot` and `sourceRange`. */
export type Key =
  | FrontendKey
  | { readonly type: "slot"; readonly frontend: FrontendKey; readonly slot: number }
  | { readonly type: "sourceRange"; readonly frontend: FrontendKey; readonly range: string }
  /** An address, a pair of addresses, a range, a mark, or another program's key of an unknown form. */
  | { readonly type: "text"; readonly text: string };

type KeyType = Key["type"];

const SEPARATOR = " . ";

export function printKey(key: Key): string {
  switch (key.type) {
    case "frontend":
      return frontendKey(key);
    case "slot":
      return slotPrinter(key.frontend)(key.slot);
    case "sourceRange":
      return `${frontendWithoutProtocol(key.frontend)}${SEPARATOR}${key.range}`;
    case "text":
      return key.text;
  }
}

/** Prints a key as nft lists it: a range of one address as the address. */
export function printListedKey(key: Key): string {
  return key.type === "text" || key.type === "sourceRange"
    ? withoutHostLength(printKey(key))
    : printKey(key);
}

/** Reads a key as nft lists it; `undefined` if the text is not a key of the set's type. */
export function parseKey({ keyType: type, protocol }: TableSet, text: string): Key | undefined {
  const parts = text.split(SEPARATOR);
  switch (type) {
    case "frontend": {
      const port = parts.pop();
      return parseFrontend(parts, parseProtocol(parts.pop()), port);
    }
    case "slot":
    case "sourceRange": {
      const rest = parts.pop() ?? "";
      const port = parts.pop();
      const frontend = parseFrontend(parts, protocol, port);
      if (type === "sourceRange") {
        return frontend && { type, frontend, range: withoutHostLength(rest) };
      }
      return frontend && isNumber(rest) ? { type, frontend, slot: Number(rest) } : undefined;
    }
    case "text":
      return { type, text: withoutHostLength(text) };
  }
}

/** Returns a function that prints the slots of a frontend. It makes their common text once. */
export function slotPrinter(frontend: FrontendKey): (slot: number) => string {
  const prefix = frontendWithoutProtocol(frontend) + SEPARATOR;
  return (slot) => `${prefix}${slot}`;
}

export function frontendOfKey(key: Key): FrontendKey | undefined {
  if (key.type === "frontend") return key;
  return key.type === "slot" || key.type === "sourceRange" ? key.frontend : undefined;
}

function frontendWithoutProtocol({ address, port }: FrontendKey): string {
  return address === undefined ? `${port}` : `${address}${SEPARATOR}${port}`;
}

function parseFrontend(
  addresses: readonly string[],
  protocol: Protocol | undefined,
  port = "",
): FrontendKey | undefined {
  return protocol !== undefined && addresses.length <= 1 && isNumber(port)
    ? { type: "frontend", address: addresses[0], protocol, port: Number(port) }
    : undefined;
}

function isNumber(text: string): boolean {
  return /^\d+$/.test(text);
}

/** The numbers of protocols, which nft before 1.1 prints if /etc/protocols is missing. */
export const PROTOCOL_NAMES: Readonly<Record<string, Protocol>> = {
  "6": "tcp",
  "17": "udp",
  "132": "sctp",
};

function parseProtocol(text: string | undefined): Protocol | undefined {
  return PROTOCOLS.find((each) => each === text) ?? PROTOCOL_NAMES[text ?? ""];
}

/** Prints a range of one address as the address. Most texts are addresses already, and a large table has very many. */
function withoutHostLength(range: string): string {
  if (!range.includes("/")) return range;
  return range.replace(/(\.\d+)\/32$/, "$1").replace(/(:[0-9a-f:.]*)\/128$/, "$1");
}
