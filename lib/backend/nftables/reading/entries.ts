/**
 * What the kernel should hold of a Service, and beside it what it holds.
 *
 * @module
 */
import {
  type DesiredNode,
  type DesiredServicePort,
  usedEndpoints,
} from "../../../model/kernel/desired.ts";
import type { KernelEntry, StickyClient } from "../../backend.ts";
import { compareContents } from "../kernel/compare.ts";
import { type Contents, desiredContents } from "../kernel/contents.ts";
import { chainPlace } from "../kernel/place.ts";
import { parseKey, printKey } from "../script/keys.ts";
import { affinitySet } from "../script/pick.ts";
import { setNamed } from "../script/sets.ts";
import { parseStickyClients } from "../script/sticky.ts";

/**
 * The entries of a Service in nftables mode, those that differ first.
 *
 * @param ports all desired ports of the Service
 * @param held all of the table
 */
export function nftablesEntries(
  ports: readonly DesiredServicePort[],
  { node, held }: { readonly node: DesiredNode; readonly held: Contents },
): KernelEntry[] {
  const fixed = desiredContents({ node, services: new Map() });
  const all = desiredContents({ node, services: new Map([["", ports]]) });
  const wanted = ofService(all, { fixed });
  const keys = new Set(
    [...wanted.sets].flatMap(([set, elements]) =>
      [...elements.keys()].map((key) => scopeOf(set, key))
    ),
  );
  const there = ofService(held, { fixed, keys, only: wanted });
  const differences = compareContents(wanted, there)
    .map(({ type, ...place }): KernelEntry => ({ ...place, state: type }));
  const different = new Set(differences.map((each) => `${each.in} ${each.key}`));
  const same = [
    ...[...wanted.sets].flatMap(([set, elements]) =>
      [...elements.keys()].flatMap((key) => {
        const data = there.sets.get(set)?.get(key);
        return data === undefined || different.has(`${set} ${key}`)
          ? []
          : [{ in: set, key, desired: data, held: data, state: "same" as const }];
      })
    ),
    ...[...[...wanted.chains.keys()].map(chainPlace), ...affinitySets(wanted)]
      .filter((name) => !differences.some((each) => each.in === name))
      .map((name) => ({ in: name, key: "", desired: "", held: "", state: "same" as const })),
  ];
  return [...differences, ...same];
}

/** Their elements come and go with the clients: only the sets themselves are compared. */
function affinitySets({ sets }: Contents): string[] {
  return [...sets.keys()].filter((name) => setNamed(name)?.role === "affinityClients");
}

/**
 * The part of a table that belongs to a Service: elements, and chains and sets that are not always
 * there.
 */
function ofService(
  contents: Contents,
  { fixed, keys, only }: {
    readonly fixed: Contents;
    /** Scopes of the elements that count; without it, all but those that are always there. */
    readonly keys?: ReadonlySet<string>;
    /** Chains and sets that count, where not all do. */
    readonly only?: Contents;
  },
): Contents {
  const isOurs = (set: string, key: string) =>
    keys ? keys.has(scopeOf(set, key)) : !fixed.sets.get(set)?.has(key);
  const sets = [...contents.sets].filter(([set]) => !only || only.sets.has(set)).map((
    [set, elements],
  ) => [set, new Map([...elements].filter(([key]) => isOurs(set, key)))] as const)
    .filter(([set, elements]) => elements.size > 0 || only?.sets.has(set) || !fixed.sets.has(set));
  const chains = [...contents.chains].filter(([name]) =>
    only ? only.chains.has(name) : !fixed.chains.has(name)
  );
  return { ...contents, sets: new Map(sets), chains: new Map(chains) };
}

/** Slots of one frontend belong together, however many there are. */
function scopeOf(name: string, text: string): string {
  const set = setNamed(name);
  const key = set?.keyType === "slot" ? parseKey(set, text) : undefined;
  return `${name} ${key?.type === "slot" ? printKey(key.frontend) : text}`;
}

/** The clients that the kernel keeps for a Service's session affinity. */
export function stickyClients(
  ports: readonly DesiredServicePort[],
  listing: string,
): StickyClient[] {
  const sticky = ports.filter(({ affinitySeconds }) => affinitySeconds > 0);
  if (sticky.length === 0) return [];
  const clients = parseStickyClients(listing);
  return sticky.flatMap((servicePort) => {
    const endpoints = new Map(
      usedEndpoints(servicePort).map((
        endpoint,
      ) => [affinitySet(servicePort, endpoint).name, endpoint]),
    );
    return [...endpoints].flatMap(([set, { address, port }]) =>
      (clients.get(set) ?? []).map((client) => ({
        servicePort: servicePort.name,
        client: client.address,
        address,
        port,
        expiresSeconds: client.expiresSeconds,
      }))
    );
  });
}
