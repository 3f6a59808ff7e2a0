/**
 * What the table should hold, and what it does: for `signpost verify` and `explain`.
 *
 * @module
 */
import type { DesiredState } from "../../../model/desired.ts";
import { diffServices } from "../script/diff.ts";
import { fixedChains, fixedSets, nodeElements } from "../script/layout.ts";
import type { Chain } from "../script/objects.ts";

/** The contents of a table, comparable. */
export interface Contents {
  /** By set or map, by key, the data; `""` in sets. */
  readonly sets: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** By chain, its rules as they are written or printed; a base chain's hook comes first. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /** Whether the table is switched off (nft(8), flag `dormant`): then no packet sees it. */
  readonly isDormant: boolean;
}

/** What the table holds when it is in the desired state. */
export function desiredContents(state: DesiredState): Contents {
  const names = [...state.services.keys()].sort();
  const changes = names.map((name) => ({ before: [], after: state.services.get(name) ?? [] }));
  const { operations } = diffServices(changes, { node: state.node, references: new Map() });
  const sets = new Map<string, Map<string, string>>();
  for (const { name } of [...fixedSets(state.node), ...operations.addSets]) {
    sets.set(name, new Map());
  }
  for (const { set, key, data } of [...nodeElements(state.node), ...operations.addElements]) {
    sets.get(set)?.set(withoutHostLength(key), data);
  }
  const chains = [...fixedChains(state.node), ...operations.addChains];
  const rules = new Map(chains.map((chain) => [chain.name, rulesOf(chain)]));
  return { sets, chains: rules, isDormant: false };
}

function rulesOf({ hook, rules }: Chain): readonly string[] {
  return hook === undefined ? rules : [hookRule(hook, "accept"), ...rules];
}

/** A base chain's hook as if it were a rule. nft prints priorities as numbers or as names. */
function hookRule(hook: string, policy: string): string {
  return `type ${hook.replace(/ priority .*$/, "")} policy ${policy}`;
}

const HOOK = /^\t\ttype (.* priority [^;]*);(?: policy (\w+);)?$/;
const BLOCK = /^\t(set|map|chain) (\S+) \{$/;

/**
 * Reads what `nft list table` prints.
 *
 * @returns `undefined` where there is no table in the text
 */
export function parseListing(listing: string): Contents | undefined {
  if (!/^table /m.test(listing)) return undefined;
  const sets = new Map<string, Map<string, string>>();
  const chains = new Map<string, string[]>();
  let elements: Map<string, string> | undefined;
  let hasProtocols = false;
  let rules: string[] | undefined;
  for (const line of listing.split("\n")) {
    const [, kind, name = ""] = BLOCK.exec(line) ?? [];
    if (kind === "chain") {
      chains.set(name, rules = []);
    } else if (kind) {
      sets.set(name, elements = new Map());
      hasProtocols = !/(?:endpoints|source-ranges)-/.test(name);
    } else if (line === "\t}") {
      elements = undefined;
      rules = undefined;
    } else if (elements) {
      for (const [key, data] of parseElements(line)) {
        elements.set(hasProtocols ? withProtocolName(key) : key, data);
      }
    } else if (rules) {
      const [, hook, policy = ""] = HOOK.exec(line) ?? [];
      rules.push(hook === undefined ? line.trim() : hookRule(hook, policy));
    }
  }
  return { sets, chains, isDormant: /^\tflags .*\bdormant\b/m.test(listing) };
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
