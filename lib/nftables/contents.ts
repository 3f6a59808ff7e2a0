/**
 * What the table should hold, and what it does: for `signpost verify` and `explain`.
 *
 * @module
 */
import type { DesiredState } from "../model/desired.ts";
import { diffServices } from "./diff.ts";
import { fixedChains, fixedSets, nodeElements } from "./layout.ts";

/** The contents of a table, comparable. */
export interface Contents {
  /** By set or map, by key, the data; `""` in sets. */
  readonly sets: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** By chain, the number of its rules. */
  readonly chains: ReadonlyMap<string, number>;
}

/** What the table holds when it is in the desired state. */
export function desiredContents(state: DesiredState): Contents {
  const names = [...state.services.keys()].sort();
  const changes = names.map((name) => ({ before: [], after: state.services.get(name) ?? [] }));
  const { operations } = diffServices(changes, { node: state.node, references: new Map() });
  const sets = new Map<string, Map<string, string>>();
  for (const { name } of [...fixedSets(), ...operations.addSets]) sets.set(name, new Map());
  for (const { set, key, data } of [...nodeElements(state.node), ...operations.addElements]) {
    sets.get(set)?.set(withoutHostLength(key), data);
  }
  const chains = [...fixedChains(state.node), ...operations.addChains];
  return { sets, chains: new Map(chains.map(({ name, rules }) => [name, rules.length])) };
}

const BLOCK = /^\t(set|map|chain) (\S+) \{$/;

/**
 * Reads what `nft list table` prints.
 *
 * @returns `undefined` where there is no table in the text
 */
export function parseListing(listing: string): Contents | undefined {
  if (!/^table /m.test(listing)) return undefined;
  const sets = new Map<string, Map<string, string>>();
  const chains = new Map<string, number>();
  let elements: Map<string, string> | undefined;
  let hasProtocols = false;
  let chain = "";
  for (const line of listing.split("\n")) {
    const [, kind, name = ""] = BLOCK.exec(line) ?? [];
    if (kind === "chain") {
      chains.set(chain = name, 0);
    } else if (kind) {
      sets.set(name, elements = new Map());
      hasProtocols = !/endpoints-/.test(name);
    } else if (line === "\t}") {
      elements = undefined;
      chain = "";
    } else if (elements) {
      for (const [key, data] of parseElements(line)) {
        elements.set(hasProtocols ? withProtocolName(key) : key, data);
      }
    } else if (chain !== "" && !/^\t\ttype \S+ hook /.test(line)) {
      chains.set(chain, (chains.get(chain) ?? 0) + 1);
    }
  }
  return { sets, chains };
}

/** nft lists protocols by name or, from 1.1.3 on, by number. */
const PROTOCOLS: Readonly<Record<string, string>> = { "6": "tcp", "17": "udp", "132": "sctp" };

/** The elements that stand on one line of a listing. */
function* parseElements(line: string): Iterable<readonly [key: string, data: string]> {
  const text = line.trim().replace(/^elements = \{ /, "").replace(/( \})?,?$/, "");
  if (
    /^(typeof|type|flags|size|timeout|policy|gc-interval|auto-merge|counter|comment) ?/.test(text)
  ) {
    return;
  }
  for (const element of text.split(", ")) {
    const plain = element.replace(/ comment "[^"]*"/, "").replace(/ (timeout|expires) \S+/g, "");
    const [, key = "", data = ""] = /^(.*?)(?: : (.*))?$/.exec(plain) ?? [];
    if (key === "") continue;
    yield [withoutHostLength(key), data];
  }
}

/** The protocol stands first in the keys of node ports, and second behind an address. */
function withProtocolName(key: string): string {
  const parts = key.split(" . ");
  const place = /[.:]/.test(parts[0] ?? "") ? 1 : 0;
  return parts.map((part, i) => i === place ? PROTOCOLS[part] ?? part : part).join(" . ");
}

/** nft lists a range of one address as the address. */
function withoutHostLength(key: string): string {
  return key.replace(/(\.\d+)\/32$/, "$1").replace(/(:[0-9a-f:.]*)\/128$/, "$1");
}
