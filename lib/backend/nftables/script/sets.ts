/**
 * The sets and maps that signpost makes, as the table in `set_rows.ts` has them. Names, declarations
 * and keys come from here, and a name that nft prints is looked up here.
 *
 * @module
 */
import { FAMILIES, type Family } from "../../../model/values/address.ts";
import type { DesiredNode } from "../../../model/kernel/desired.ts";
import { type Protocol, PROTOCOLS } from "../../../model/cluster/objects.ts";
import { type Key, parseKeyOf } from "./keys.ts";
import {
  type AnyPlace,
  type AnyRow,
  type KeyTypeOf,
  type PlaceOf,
  ROWS,
  type SetRole,
  SHARDS,
} from "./set_rows.ts";

/** A key of a role's sets. */
export type KeyOf<R extends SetRole> = Key<KeyTypeOf<R>>;

/** A set or map of the table. */
export interface TableSet<R extends SetRole = SetRole> {
  readonly type: "set";
  readonly kind: "set" | "map";
  readonly role: R;
  readonly name: string;
  /** The name without protocol and family, for the names of chains. */
  readonly stem: string;
  /** What stands between the braces of its declaration. */
  readonly body: string;
  readonly keyType: KeyTypeOf<R>;
  /** See `Row`. */
  readonly filledBy: AnyRow["filledBy"];
  /** `undefined`: both families share it. */
  readonly family: Family | undefined;
  /** `undefined`: protocols share it. */
  readonly protocol: Protocol | undefined;
}

const ROLES = Object.keys(ROWS) as readonly SetRole[];
const FRONTENDS = ["vip", "nodeport", "all"] as const;

/** All sets that there can be, but for shards of slots and those of endpoints with session affinity. */
const SETS_BY_NAME: ReadonlyMap<string, TableSet> = new Map(
  FRONTENDS.flatMap((stem) => {
    const frontend = stem === "all" ? {} : { frontend: stem };
    return ROLES.filter((role) => rowOf(role).stems[stem] !== undefined).flatMap((role) =>
      placesOf(rowOf(role).apartBy).map((place) => makeSet(role, { ...place, ...frontend }))
    );
  }).map((set) => [set.name, set]),
);

function rowOf(role: SetRole): AnyRow {
  return ROWS[role];
}

function placesOf(apartBy: AnyRow["apartBy"]): AnyPlace[] {
  switch (apartBy) {
    case "nothing":
      return [{}];
    case "family":
      return FAMILIES.map((family) => ({ family }));
    case "protocol":
      return FAMILIES.flatMap((family) => PROTOCOLS.map((protocol) => ({ family, protocol })));
    case "endpoint":
      return [];
  }
}

function makeSet<R extends SetRole>(role: R, place: AnyPlace): TableSet<R> {
  const { keyType, kind, filledBy, body } = ROWS[role];
  return {
    type: "set",
    kind,
    role,
    name: nameOf(role, place),
    stem: stemOf(role, place),
    body: body(place),
    keyType,
    filledBy,
    family: place.family,
    protocol: place.protocol,
  };
}

function stemOf(role: SetRole, { frontend }: AnyPlace): string {
  return rowOf(role).stems[frontend ?? "all"] ?? "";
}

function nameOf(role: SetRole, place: AnyPlace): string {
  const stem = stemOf(role, place);
  const { shard } = place;
  switch (ROWS[role].apartBy) {
    case "nothing":
      return stem;
    case "family":
      return `${stem}${place.family}`;
    case "protocol":
      return `${stem}-${place.protocol}${place.family}${
        shard === undefined ? "" : `-turns-${shard}`
      }`;
    case "endpoint":
      return `${stem}${place.family}-${place.endpoint}`;
  }
}

/** The set of a role at a place. */
export function tableSet<R extends SetRole>(role: R, place: PlaceOf<R>): TableSet<R> {
  const known = SETS_BY_NAME.get(nameOf(role, place));
  return known !== undefined && isOf(role, known) ? known : makeSet(role, place);
}

function isOf<R extends SetRole>(role: R, set: TableSet): set is TableSet<R> {
  return set.role === role;
}

const SHARD_NAME = /^(.+)-turns-(0|[1-9]\d?)$/;

/** The sets of endpoints with session affinity: there are as many names as endpoints. */
const AFFINITY_NAME = new RegExp(`^${ROWS.affinityClients.stems.all}([46])-(.+)$`);

/**
 * The set that a name from nft's text belongs to.
 *
 * @returns `undefined` where it is none that signpost makes
 */
export function setNamed(name: string): TableSet | undefined {
  const known = SETS_BY_NAME.get(name);
  if (known !== undefined) return known;
  const [, cut = "", shard = ""] = SHARD_NAME.exec(name) ?? [];
  const uncut = SETS_BY_NAME.get(cut);
  if (uncut?.keyType === "slot" && Number(shard) < SHARDS) {
    return { ...uncut, name };
  }
  const [, digit, endpoint = ""] = AFFINITY_NAME.exec(name) ?? [];
  const family = FAMILIES.find((each) => `${each}` === digit);
  return family && tableSet("affinityClients", { family, endpoint });
}

/** The maps in which each connection finds its frontend, and finds it once: those whose elements may count. */
export const COUNTING_ROLE = "services";

/** The sets that every table of this node has, in the order of their printing. */
export function alwaysThere(
  { ipFamilies, countsConnections }: Pick<DesiredNode, "ipFamilies" | "countsConnections">,
): readonly TableSet[] {
  const all = [...SETS_BY_NAME.values()].filter(({ role }) => ROWS[role].lifetime === "always")
    .map((set) =>
      countsConnections && set.role === COUNTING_ROLE
        ? { ...set, body: `${set.body}; ${COUNTER}` }
        : set
    );
  return [undefined, ...ipFamilies].flatMap((family) => all.filter((set) => set.family === family));
}

/** In a declaration, it gives each element a counter. */
export const COUNTER = "counter";

/** Reads a key of a set as nft lists it; `undefined` where it is none of the set's type. */
export function parseKey<R extends SetRole>(
  { keyType, protocol }: TableSet<R>,
  text: string,
): KeyOf<R> | undefined {
  return parseKeyOf(keyType, text, protocol);
}
