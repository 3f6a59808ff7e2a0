/** Compares the table with the desired state, for `verify` and `explain`. */
import {
  type DesiredNode,
  type DesiredServicePort,
  type DesiredState,
  usedEndpoints,
} from "../../model/kernel/desired.ts";
import { type Difference, difference } from "../../model/kernel/differences.ts";
import type {
  Comparison,
  KernelEntry,
  KernelRules,
  PortsOfNode,
  StickyClient,
} from "../backend.ts";
import { chainPlace, compareContents, frontendIn, TABLE_PLACE } from "./compare.ts";
import {
  chainRules,
  clientsIn,
  type Contents,
  desiredContents,
  NO_CONTENTS,
  parsingListing,
  readingTable,
  withElements,
} from "./read.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import { fixedSets, parseKey, setNamed } from "./sets.ts";
import { ownersOf } from "./changes.ts";
import { NAT_CHAINS } from "./layout.ts";
import { affinityEndpoint } from "./pick.ts";
import { renderElement } from "./text.ts";
import { diffing } from "./delta.ts";
import type { Nft } from "./nft.ts";
import { elementsOf, TABLE, type Table } from "./table.ts";

/** @param contents `undefined` without a table */
export function nftablesRules(contents: Contents | undefined): KernelRules {
  const held = contents ?? NO_CONTENTS;
  return {
    isEmpty: contents === undefined,
    entries: (ports, node) => nftablesEntries(ports, { node, held }),
    stickyClients: (ports) => stickyClients(ports, held),
    compare: (state) => compareTable(state, contents),
  };
}

function compareTable(state: DesiredState, held: Contents | undefined): Comparison {
  const desired = desiredContents(state);
  const differences = held
    ? compareContents(desired, withRunningHooks(held))
    : [difference("missing", TABLE_PLACE)];
  const ownerOf = ownersOf([...state.services.values()].flat(), state.node);
  const serviceOf = ({ in: place, key: text }: Difference) => {
    const set = setNamed(place);
    const key = set && parseKey(set, text);
    return key ? ownerOf({ set, key }) : "";
  };
  return {
    differences: differences.map((each) => ({ ...each, service: serviceOf(each) })),
    compared: countContents(desired),
  };
}

/** Returns the contents as if their daemon ran: a stopped daemon has moved the nat chains, which is intended. */
function withRunningHooks(held: Contents): Contents {
  const chains = new Map(held.chains);
  for (const { before, after } of NAT_CHAINS) {
    if (`${chains.get(after.name)}` === `${chainRules(after)}`) {
      chains.set(before.name, chainRules(before));
    }
  }
  return { ...held, chains };
}

function countContents({ sets, chains }: Contents): number {
  let count = 0;
  for (const elements of sets.values()) count += elements.size;
  for (const rules of chains.values()) count += rules.length;
  return count;
}

/** Returns the part of the table that these ports need. */
function tableOfPorts({ ports, node }: PortsOfNode): Pick<Table, "sets" | "chains" | "elements"> {
  const changes = [{ before: [], after: ports }];
  const delta = atOnce(diffing(changes, { node, references: new Map() }));
  const used = new Set(delta.addElements.map(({ set }) => set.name));
  const always = fixedSets(node).filter(({ name }) => used.has(name));
  return {
    sets: [...always, ...delta.addSets],
    chains: delta.addChains,
    elements: delta.addElements,
  };
}

/** Returns the entries of a Service, differences first. @param ports all its ports */
export function nftablesEntries(
  ports: readonly DesiredServicePort[],
  { node, held }: { readonly node: DesiredNode; readonly held: Contents },
): KernelEntry[] {
  const wanted = atOnce(readingTable(tableOfPorts({ ports, node })));
  const there = partOfService(held, wanted);
  const differences = compareContents(wanted, there);
  const different = new Set(differences.flatMap((each) => [each.in, `${each.in} ${each.key}`]));
  const same = (place: string, key: string, data: string): KernelEntry[] =>
    different.has(key === "" ? place : `${place} ${key}`)
      ? []
      : [{ in: place, key, desired: data, held: data, state: "same" }];
  return [
    ...differences.map(({ type, ...place }) => ({ ...place, state: type })),
    ...[...wanted.sets].flatMap(([set, elements]) =>
      [...elements.keys()].flatMap((key) => {
        const data = there.sets.get(set)?.get(key)?.data;
        return data === undefined ? [] : same(set, key, data);
      })
    ),
    ...[...wanted.chains.keys()].flatMap((chain) => same(chainPlace(chain), "", "")),
    ...affinitySets(wanted).flatMap((set) => same(set, "", "")),
  ];
}

/** Returns the sets of session affinity, whose elements are the clients. */
function affinitySets({ sets }: Contents): string[] {
  return [...sets.keys()].filter((name) => setNamed(name)?.role === "affinityClients");
}

/** Returns the chains and sets that a Service needs, with the elements of its frontends. */
function partOfService(held: Contents, wanted: Contents): Contents {
  const scopes = new Set(
    [...wanted.sets].flatMap(([set, elements]) =>
      [...elements.keys()].map((key) => scopeOf(set, key))
    ),
  );
  const sets = [...held.sets].filter(([set]) => wanted.sets.has(set)).map(([set, elements]) =>
    [set, new Map([...elements].filter(([key]) => scopes.has(scopeOf(set, key))))] as const
  );
  const chains = [...held.chains].filter(([name]) => wanted.chains.has(name));
  return { ...held, sets: new Map(sets), chains: new Map(chains) };
}

/** Returns the scope of an element: all slots of one frontend have the same. */
function scopeOf(name: string, text: string): string {
  const set = setNamed(name);
  return `${name} ${set ? frontendIn(set, text) : text}`;
}

export function stickyClients(
  ports: readonly DesiredServicePort[],
  held: Contents,
): StickyClient[] {
  return ports.filter(({ affinitySeconds }) => affinitySeconds > 0).flatMap((servicePort) => {
    const endpoints = new Map(
      usedEndpoints(servicePort).map((
        each,
      ) => [affinityEndpoint(servicePort, each).set.name, each]),
    );
    return [...endpoints].flatMap(([set, { address, port }]) =>
      clientsIn(held, set).map(({ address: client, expiresSeconds }) => ({
        servicePort: servicePort.name,
        client,
        address,
        port,
        expiresSeconds,
      }))
    );
  });
}

const MOST = 2_000;

/**
 * Reads the structure, and asks the kernel for the elements of some ports. To list a large table takes seconds.
 * @returns `undefined` if the table must be listed: an element is missing, differs or cannot be asked for
 */
export async function readPorts(
  nft: Pick<Nft, "listStructure" | "existingLines">,
  { ports, node }: PortsOfNode,
): Promise<Contents | undefined> {
  // nft can list clients of session affinity, but not check them.
  if (ports.some(({ affinitySeconds }) => affinitySeconds > 0)) return undefined;
  const structure = atOnce(parsingListing(await nft.listStructure()));
  if (!structure) return undefined;
  const table = tableOfPorts({ ports, node });
  const elements = [...elementsOf(table.elements)];
  // nft lists intervals before it adds to them.
  const isAskable = elements.length <= MOST &&
    !elements.some(({ set }) => set.body.includes("interval"));
  if (!isAskable) return undefined;
  // The kernel refuses to create an element that it has, but accepts to add it (nft(8), `--check`).
  const lines = elements.flatMap((each) => {
    const place = `element ${TABLE} ${each.set.name} { ${renderElement(each)} }\n`;
    return [`create ${place}`, `add ${place}`];
  });
  const existing = await nft.existingLines(lines.join(""));
  if (!elements.every((_, i) => existing.has(2 * i + 1) && !existing.has(2 * i + 2))) {
    return undefined;
  }
  const wanted = atOnce(readingTable(table));
  return withElements(structure, wanted.sets);
}
