/**
 * Bounds the additions of one step to a Service, so that other Services need not wait for all of
 * it.
 *
 * @module
 */
import type { DesiredServicePort, Destination } from "../model/kernel/desired.ts";
import { hostPort } from "../model/cluster/names.ts";
import { only } from "../model/values/lists.ts";
import { CHAIN_COST } from "./limits.ts";

/**
 * Limits one step of a Service. Removals are complete. New ports, addresses and endpoints follow in
 * list order up to the cost of one step. Each step adds something.
 *
 * @param before the ports after the last step
 * @param most elements
 * @returns the wanted ports themselves if the step adds no more than that
 */
export function limitGrowth(
  before: readonly DesiredServicePort[],
  { wanted, most }: { readonly wanted: readonly DesiredServicePort[]; readonly most: number },
): readonly DesiredServicePort[] {
  if (most === Infinity || isSmall(wanted, most)) return wanted;
  const known = new Map(before.map((port) => [portKey(port), port]));
  let left = most;
  let isCut = false;
  const ports: DesiredServicePort[] = [];
  for (const port of wanted) {
    const last = known.get(portKey(port));
    const added = addedCost(port, last);
    if (added <= left) ports.push(port);
    else {
      isCut = true;
      if (left > 0 || last) ports.push(cutPort(port, { last, most: left }));
    }
    left = Math.max(0, left - added);
  }
  return isCut ? ports : wanted;
}

/** Returns true if no step to these ports can add more than that: no endpoint needs a look then. */
function isSmall(ports: readonly DesiredServicePort[], most: number): boolean {
  let cost = 0;
  for (const port of ports) {
    const endpoints = port.clusterEndpoints.length + port.localEndpoints.length;
    cost += endpoints * costOfEndpoint(port) + addressesOf(port).length * (1 + endpoints);
    if (cost > most) return false;
  }
  return true;
}

function portKey({ name, family, protocol }: DesiredServicePort): string {
  return `${family} ${protocol} ${name}`;
}

function addressesOf(port: DesiredServicePort): readonly string[] {
  const { clusterIPs, loadBalancerIPs, externalIPs, nodePort } = port;
  const all = [...clusterIPs, ...loadBalancerIPs, ...externalIPs];
  return nodePort === 0 ? all : [...all, `node port ${nodePort}`];
}

/** Returns the cost of one endpoint in elements. */
function costOfEndpoint(port: DesiredServicePort): number {
  return port.affinitySeconds > 0 ? CHAIN_COST : Math.max(1, addressesOf(port).length);
}

function newcomers(list: readonly Destination[], last: readonly Destination[]): Set<string> {
  const known = new Set(last.map(keyOf));
  return new Set(list.map(keyOf).filter((key) => !known.has(key)));
}

function keyOf({ address, port }: Destination): string {
  return hostPort(address, port);
}

function newAddresses(port: DesiredServicePort, last: DesiredServicePort | undefined): string[] {
  const known = new Set(last === undefined ? [] : addressesOf(last));
  return addressesOf(port).filter((address) => !known.has(address));
}

function addedCost(port: DesiredServicePort, last: DesiredServicePort | undefined): number {
  const { clusterEndpoints: all, localEndpoints: local } = port;
  const added = newcomers(all, last?.clusterEndpoints ?? []).size +
    newcomers(local, last?.localEndpoints ?? []).size;
  const addresses = newAddresses(port, last).length;
  return added * costOfEndpoint(port) +
    addresses * (1 + (last === undefined ? 0 : all.length + local.length));
}

/** Keeps new endpoints and addresses up to a cost. Above 0, it allows at least one of each. */
function cutPort(
  port: DesiredServicePort,
  { last, most }: { readonly last: DesiredServicePort | undefined; readonly most: number },
): DesiredServicePort {
  const allowed = (each: number) => most === 0 ? 0 : Math.max(1, Math.floor(most / each));
  const cut = (list: readonly Destination[], before: readonly Destination[] = []) => {
    const late = new Set([...newcomers(list, before)].slice(allowed(costOfEndpoint(port))));
    return only(list, (each) => !late.has(keyOf(each)));
  };
  const clusterEndpoints = cut(port.clusterEndpoints, last?.clusterEndpoints);
  const localEndpoints = cut(port.localEndpoints, last?.localEndpoints);
  const each = 1 + clusterEndpoints.length + localEndpoints.length;
  const late = new Set(newAddresses(port, last).slice(allowed(each)));
  const held = (list: readonly string[]) => only(list, (address) => !late.has(address));
  return {
    ...port,
    clusterIPs: held(port.clusterIPs),
    loadBalancerIPs: held(port.loadBalancerIPs),
    externalIPs: held(port.externalIPs),
    nodePort: late.has(`node port ${port.nodePort}`) ? 0 : port.nodePort,
    clusterEndpoints,
    localEndpoints,
  };
}
