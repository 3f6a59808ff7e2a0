/** Finds the interfaces of packets in the main routing table. */
import {
  ADDRESS_BITS,
  cidrContains,
  type Family,
  familyOf,
  isEveryAddress,
  parseCidr,
} from "../model/values/address.ts";
import type { NodeFacts, Route } from "./facts.ts";
import type { Link } from "./packet_walk.ts";

/** Returns the ranges of this node's pods, or of all pods. */
export function podRanges(
  { objects, configuration: { clusterCIDRs } }: NodeFacts,
  family: Family,
): readonly string[] {
  const { podCIDRs = [] } = objects?.node ?? {};
  return (podCIDRs.length > 0 ? podCIDRs : clusterCIDRs).filter((each) =>
    familyOf(each) === family
  );
}

export class Interfaces {
  readonly #devices: ReadonlyMap<string, string>;
  /** The lengths of all prefixes, the longest first. */
  readonly #lengths: readonly number[];
  readonly #from = new Map<string, Link | undefined>();

  constructor(private readonly facts: NodeFacts) {
    const routes = facts.ruleset?.routes ?? [];
    this.#devices = new Map(routes.map(({ cidr, device }) => [cidr, device]));
    this.#lengths = [...new Set(routes.map(lengthOf))].sort((a, b) => b - a);
  }

  /** Returns the interface of the route to an address; `undefined`: no route leads there. */
  to(address: string): Link | undefined {
    for (const length of this.#lengths) {
      const device = this.#devices.get(parseCidr(`${address}/${length}`) ?? "");
      const isOfOneHost = length === ADDRESS_BITS[familyOf(address)];
      if (device !== undefined) return { names: [device], isOfOneHost };
    }
    return undefined;
  }

  /** Returns the interfaces at which packets from outside or from pods arrive. */
  from(sender: "external" | "pod", family: Family): Link | undefined {
    const key = `${sender} ${family}`;
    if (!this.#from.has(key)) this.#from.set(key, this.#find(sender, family));
    return this.#from.get(key);
  }

  #find(sender: "external" | "pod", family: Family): Link | undefined {
    const { objects, ruleset } = this.facts;
    const ranges = podRanges(this.facts, family);
    const isFound = ({ cidr }: Route) =>
      familyOf(cidr) === family &&
      (sender === "external"
        ? isEveryAddress(cidr)
        : !isEveryAddress(cidr) && ranges.some((range) => cidrContains(range, cidr)));
    const routes = (ruleset?.routes ?? []).filter(isFound);
    const own = objects?.node?.addresses.filter((each) => familyOf(each) === family) ?? [];
    const names = new Set([
      ...routes.map(({ device }) => device),
      ...sender === "external" ? own.flatMap((each) => this.to(each)?.names ?? []) : [],
    ]);
    // Ranges of all pods also have routes to other nodes.
    const outside = sender === "pod" ? this.from("external", family)?.names ?? [] : [];
    if (names.size > 1) { for (const name of outside) names.delete(name); }
    if (names.size === 0) return undefined;
    const isOfOneHost = sender === "pod" &&
      routes.every((each) => !names.has(each.device) || lengthOf(each) === ADDRESS_BITS[family]);
    return { names: [...names], isOfOneHost };
  }
}

function lengthOf({ cidr }: Route): number {
  return Number(cidr.split("/")[1]);
}
