/** Reads tables as contents that can be compared: the desired table, and nft's listings. */
import type { DesiredState } from "../../model/kernel/desired.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import { parseAddress } from "../../model/values/address.ts";
import { eachLine } from "../../model/values/text.ts";
import { tableOf } from "./delta.ts";
import { parseKey, printListedKey, setNamed } from "./sets.ts";
import { type Chain, type Element, elementsOf, type Table } from "./table.ts";
import { commentOf, milliseconds } from "./text.ts";
import type { ForeignChain } from "../../findings/facts.ts";
import { OWN_TABLES } from "./nft.ts";

/** The text of an element without its key. */
export interface ElementText {
  /** `""` in a set. */
  readonly data: string;
  /** The comment, time or counter. */
  readonly remark: string;
}

export type Elements = ReadonlyMap<string, ElementText>;

export interface Contents {
  readonly sets: ReadonlyMap<string, Elements>;
  /** By set or map; see `canonicalDeclaration`. */
  readonly declarations: ReadonlyMap<string, string>;
  /** The rules as written or printed; a base chain's hook comes first. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /** Such as `dormant`: then packets do not meet the table (nft(8)). */
  readonly flags: string;
  /** Other objects by their first line: `counter hits`, `comment "…"`. */
  readonly others: readonly string[];
}

export const NO_CONTENTS: Contents = {
  sets: new Map(),
  declarations: new Map(),
  chains: new Map(),
  flags: "",
  others: [],
};

export function desiredContents(state: DesiredState): Contents {
  return atOnce(readingTable(atOnce(tableOf(state))));
}

/** Returns the key of an element as listings have it. */
export function elementKey({ key }: Pick<Element, "key">): string {
  return printListedKey(key);
}

/** Returns the contents that listings of a table should have. @yields when other work can run */
export function* readingTable(
  table: Pick<Table, "sets" | "chains" | "elements">,
): Generator<undefined, Contents> {
  const sets = new Map<string, Map<string, ElementText>>();
  const declarations = new Map<string, string>();
  for (const { kind, name, body } of table.sets) {
    sets.set(name, new Map());
    declarations.set(name, canonicalDeclaration(kind, body.split("; ")));
  }
  for (const element of elementsOf(table.elements)) {
    yield;
    const text = { data: element.data, remark: commentOf(element) };
    sets.get(element.set.name)?.set(elementKey(element), text);
  }
  const rules = new Map(table.chains.map((chain) => [chain.name, chainRules(chain)]));
  return { sets, declarations, chains: rules, flags: "", others: [] };
}

/** Returns the rules of a chain, after the hook of a base chain. */
export function chainRules({ hook, rules }: Chain): readonly string[] {
  return hook === undefined ? rules : [hookRule(`type ${hook}`, "accept"), ...rules];
}

/** By set and key; `undefined`: the element is gone. */
export type SomeElements = ReadonlyMap<string, ReadonlyMap<string, ElementText | undefined>>;

/** Returns the contents of a structure with these elements alone. */
export function withElements(structure: Contents, some: SomeElements): Contents {
  const sets = new Map([...structure.sets.keys()].map((name) => {
    const elements = [...some.get(name) ?? []];
    return [name, new Map(elements.flatMap(([key, each]) => each ? [[key, each]] : []))];
  }));
  return { ...structure, sets };
}

/** Reads what `nft list table`, `list map` and the like print. @returns `undefined` if the text lacks a table */
export function* parsingListing(listing: string): Generator<undefined, Contents | undefined> {
  if (!/^table /m.test(listing)) return undefined;
  const reader = new Reader();
  for (const line of eachLine(listing)) {
    yield;
    reader.read(line);
  }
  return reader;
}

const BLOCK = /^\t(\S.*) \{(?: # .*)?$/;
const NAMED = /^(set|map|flowtable|chain) (\S+)$/;

/** nft 1.1.7 prints the number of elements behind a set's size. */
const COUNT = /\s+# count \d+$/;

class Reader implements Contents {
  readonly sets = new Map<string, Elements>();
  readonly declarations = new Map<string, string>();
  readonly chains = new Map<string, string[]>();
  flags = "";
  readonly others: string[] = [];
  /** Takes a line inside of a block. */
  #take: (line: string) => void = () => {};

  read(line: string): void {
    if (line.startsWith("\t\t")) return this.#take(line.trim());
    const [, head] = BLOCK.exec(line) ?? [];
    if (head !== undefined) this.#take = this.#begin(head);
    else if (line.startsWith("\tflags ")) this.flags = line.slice("\tflags ".length);
    else if (line.startsWith("\t") && line !== "\t}") this.others.push(line.trim());
  }

  #begin(head: string): (line: string) => void {
    const [, kind = "", name = ""] = NAMED.exec(head) ?? [];
    if (kind === "") {
      this.others.push(head);
      return () => {};
    }
    if (kind !== "chain") return this.#beginSet(kind, name);
    const rules: string[] = [];
    this.chains.set(name, rules);
    return (line) => rules.push(parseHook(line) ?? line);
  }

  #beginSet(kind: string, name: string): (line: string) => void {
    const elements = new Map<string, ElementText>();
    this.sets.set(name, elements);
    const statements: string[] = [];
    const declare = () => this.declarations.set(name, canonicalDeclaration(kind, statements));
    declare();
    let isInElements = false;
    return (line) => {
      isInElements ||= line.startsWith("elements = {");
      if (!isInElements) {
        statements.push(line.replace(COUNT, ""));
        return declare();
      }
      const text = line.replace(/^elements = \{ /, "").replace(/( \})?,?$/, "");
      isInElements = !line.endsWith("}");
      for (const [key, element] of parseElements(name, text)) elements.set(key, element);
    };
  }
}

interface Client {
  readonly address: string;
  readonly timeoutSeconds: number;
  readonly expiresSeconds: number;
}

/** Matches the remark of an element that the kernel added: the time until it goes. */
export const EXPIRING = /^(?:timeout (\S+) )?expires (\S+)$/;

/** Returns the clients in a set of session affinity. */
export function clientsIn({ sets }: Pick<Contents, "sets">, set: string): Client[] {
  return [...sets.get(set) ?? []].flatMap(([text, { remark }]) => {
    const [, timeout, expires] = EXPIRING.exec(remark) ?? [];
    const [address, expiresSeconds] = [parseAddress(text), seconds(expires)];
    if (address === undefined || expiresSeconds <= 0) return [];
    return [{ address, timeoutSeconds: seconds(timeout) || expiresSeconds, expiresSeconds }];
  });
}

function seconds(time = ""): number {
  return Math.floor((milliseconds(time) ?? 0) / 1_000);
}

/** Matches text between commas, which are outside of quotes. */
const ELEMENTS = /(?:"[^"]*"|[^",])+/g;
const KEY = /^(\S+(?: \. \S+)*)(.*)$/;
const BESIDES = /^((?: (?:"[^"]*"|(?!: )\S+))*)(?: : (.*))?$/;

/** Reads the elements of a set as nft lists them, with canonical keys. */
export function* parseElements(
  name: string,
  text: string,
): Iterable<readonly [key: string, ElementText]> {
  const set = setNamed(name);
  for (const [element] of text.matchAll(ELEMENTS)) {
    const [, printed = "", rest = ""] = KEY.exec(element.trim()) ?? [];
    if (printed === "") continue;
    const [, besides = rest, data = ""] = BESIDES.exec(rest) ?? [];
    const key = set && parseKey(set, printed);
    yield [key ? printListedKey(key) : printed, { data, remark: besides.trim() }];
  }
}

/** The kernel's default for a set that rules fill. */
const DYNAMIC_SIZE = "size 65535";

/** Returns a declaration without elements or devices, in one spelling for all versions of nft. */
export function canonicalDeclaration(kind: string, statements: readonly string[]): string {
  const all = statements.filter((each) => !each.startsWith("devices = "))
    .map(canonicalStatement);
  const isDynamic = all.some((each) => /^flags .*\bdynamic\b/.test(each));
  if (isDynamic && !all.some((each) => each.startsWith("size "))) all.push(DYNAMIC_SIZE);
  return [kind, ...all.sort()].join("; ");
}

function canonicalStatement(statement: string): string {
  const [, word = "", rest = ""] = /^(\S+) ?(.*)$/.exec(statement) ?? [];
  switch (word) {
    case "type":
    case "typeof":
      return `type ${rest.split(/( \. | : )/).map((each) => TYPES[each] ?? each).join("")}`;
    case "flags":
      return `flags ${rest.split(/, ?/).sort().join(",")}`;
    case "timeout":
    case "gc-interval":
      return `${word} ${milliseconds(rest) ?? rest}`;
    default:
      return statement;
  }
}

/** Expressions that some versions of nft print as types. */
const TYPES: Readonly<Record<string, string>> = {
  "ip saddr": "ipv4_addr",
  "ip daddr": "ipv4_addr",
  "ip6 saddr": "ipv6_addr",
  "ip6 daddr": "ipv6_addr",
  "meta l4proto": "inet_proto",
  "meta mark": "mark",
  "tcp dport": "inet_service",
  "udp dport": "inet_service",
  "sctp dport": "inet_service",
  "numgen random mod 2": "integer",
};

/** Matches a hook as `nft --numeric-priority` prints it. */
const HOOK = /^(type .* priority -?\d+);(?: policy (\w+);)?(.*)$/;

/** Reads a hook as a rule: `type nat hook output priority -100 policy accept`; `undefined` for other lines. */
export function parseHook(line: string): string | undefined {
  const [, hook, policy = "accept", rest = ""] = HOOK.exec(line) ?? [];
  return hook && hookRule(hook, policy) + rest;
}

function hookRule(hook: string, policy: string): string {
  return `${hook} policy ${policy}`;
}

const PARSED_HOOK = /^type (\S+) hook (\S+)(?: devices? =? ?(.*?))? priority (-?\d+) policy (\S+)/;

/** Reads the chains of all tables but ours from `nft --numeric-priority --terse list ruleset`. */
export function foreignChains(listing: string): ForeignChain[] {
  const tables = [...listing.matchAll(/^table (\S+ \S+) \{(?: #.*)?\n([^]*?)^\}/gm)];
  return tables.flatMap(([, table = "", body = ""]) =>
    // The kernel runs no chain of a dormant table.
    OWN_TABLES.includes(table) || /^\tflags .*\bdormant\b/m.test(body)
      ? []
      : [...body.matchAll(/^\tchain (\S+) \{(?: #.*)?\n([^]*?)^\t\}/gm)].flatMap((
        [, name = "", lines = ""],
      ) => namedChains(name, lines).map((each) => parseChain(table, each)))
  );
}

interface ChainLines {
  readonly name: string;
  readonly lines: string[];
}

/** Splits the lines of a chain. An anonymous chain, in braces after `jump` or `goto`, gets a name. */
function namedChains(name: string, text: string): ChainLines[] {
  const all: ChainLines[] = [{ name, lines: [] }];
  const open = [...all];
  for (const line of text.split("\n").map((each) => each.trim())) {
    if (line.startsWith("}")) open.pop();
    else if (/\b(?:jump|goto) \{$/.test(line)) {
      const inner = { name: `${name}#${all.length}`, lines: [] };
      open.at(-1)?.lines.push(line.replace(/\{$/, inner.name));
      all.push(inner);
      open.push(inner);
    } else if (line !== "") open.at(-1)?.lines.push(line);
  }
  return all;
}

function parseChain(table: string, { name, lines }: ChainLines): ForeignChain {
  const [first = "", ...rest] = lines;
  const [, type, hook, device = "", priority, policy] = PARSED_HOOK.exec(parseHook(first) ?? "") ??
    [];
  if (type === undefined || hook === undefined || policy === undefined) {
    return { table, name, rules: first === "" ? [] : [first, ...rest] };
  }
  const devices = [...device.matchAll(/[^\s",{}]+/g)].map(([each]) => each);
  const parsed = { type, hook, priority: Number(priority), policy, devices };
  return { table, name, hook: parsed, rules: rest };
}
