/**
 * Finds UDP flows whose conntrack entries are stale.
 *
 * A UDP flow keeps the endpoint of its first datagram for as long as its conntrack entry lives,
 * and every datagram prolongs that life. An entry that leads to an endpoint that is gone, or past
 * a Service that has come meanwhile, is a black hole until it is deleted (kube-proxy:
 * `pkg/proxy/conntrack/cleanup.go`, which leaves Services without endpoints and deleted ones out;
 * they are cleaned here).
 *
 * @module
 */
import { frontendKey, hostPort } from "../model/cluster/names.ts";
import {
  type DesiredNode,
  type DesiredServicePort,
  type ServiceChange,
  servingEndpoints,
} from "../model/kernel/desired.ts";
import type { Family } from "../model/values/address.ts";
import { type Frontend, frontendsOf, type Match } from "../policy/frontend.ts";
import { takesNodePorts } from "../policy/node.ts";
import type { ConntrackEntry } from "./parse.ts";

/** A frontend whose flows may be stale. */
export interface Suspect extends Pick<Frontend, "address" | "port"> {
  /** Endpoints that it had, as `address:port`: flows to them are stale if the frontend is gone. */
  readonly former: ReadonlySet<string>;
}

/** Frontends of one family whose flows may be stale, by `frontendKey`. */
export type Suspects = Map<string, Suspect>;

/** Frontends, and Services, that are remembered. Of more, all entries are listed, and flows to deleted frontends stay. */
export const MOST_SUSPECTS = 10_000;

/** Endpoints of a frontend to which those of later changes are added, while conntrack fails. */
const MOST_FORMER = 1_000;

/** Adds frontends whose flows may be stale. */
export function addSuspects(suspects: Suspects, more: Iterable<readonly [string, Suspect]>): void {
  for (const [key, suspect] of more) {
    const known = suspects.get(key);
    if (known && known.former.size < MOST_FORMER) {
      suspects.set(key, { ...known, former: known.former.union(suspect.former) });
    } else if (!known && suspects.size < MOST_SUSPECTS) {
      suspects.set(key, suspect);
    }
  }
}

/**
 * Returns the frontends whose flows a change of a Service may have made stale: those that lost an endpoint, are new,
 * got their first endpoint, or are gone. New endpoints beside old ones make nothing stale.
 */
export function* suspectsOf(
  { before, after }: ServiceChange,
  family: Family,
): Generator<readonly [string, Suspect]> {
  const former = new Map(udpFrontends(before, family));
  const present = new Map(udpFrontends(after, family));
  for (const [key, { frontend: { address, port } }] of new Map([...former, ...present])) {
    const [old, now] = [former.get(key), present.get(key)];
    const had = old ? endpointsOf(old.servicePort) : NONE;
    if (!old || losesFlows(had, now)) yield [key, { address, port, former: had }];
  }
}

/** Returns whether a change of a Service can make flows stale at all. */
export function concernsUdp({ before, after }: ServiceChange): boolean {
  return before !== after && (before.some(isUdp) || after.some(isUdp));
}

function isUdp({ protocol }: DesiredServicePort): boolean {
  return protocol === "udp";
}

const NONE: ReadonlySet<string> = new Set();

function losesFlows(had: ReadonlySet<string>, now: Match | undefined): boolean {
  if (!now) return had.size > 0;
  const has = endpointsOf(now.servicePort);
  return !had.isSubsetOf(has) || had.size === 0 && has.size > 0;
}

/** Returns `address:port` of every endpoint that a flow may stay on. */
function endpointsOf(port: DesiredServicePort): ReadonlySet<string> {
  return new Set(servingEndpoints(port).map((each) => hostPort(each.address, each.port)));
}

function* udpFrontends(
  ports: readonly DesiredServicePort[],
  family: Family,
): Generator<readonly [string, Match]> {
  for (const servicePort of ports) {
    if (!isUdp(servicePort) || servicePort.family !== family) continue;
    for (const frontend of frontendsOf(servicePort)) {
      yield [frontendKey({ ...frontend, protocol: "udp" }), { servicePort, frontend }];
    }
  }
}

/** Holds what flows are compared with. */
export interface Present {
  readonly node: DesiredNode;
  /** All addresses of the node's interfaces, canonical. */
  readonly localAddresses: ReadonlySet<string>;
  /** The service ports of UDP frontends of a family, by `frontendKey`: of suspects, at least. */
  readonly servicePorts: ReadonlyMap<string, DesiredServicePort>;
}

/** Returns whether one of them is a node port: an unchanged virtual IP on the node's address goes before it. */
export function haveNodePort(suspects: Suspects): boolean {
  return suspects.values().some(({ address }) => address === undefined);
}

/** Services that are looked at in one turn. */
const BATCH = 100;

/**
 * Gathers what the flows of a family are compared with.
 *
 * @yields where other work can be done
 */
export function* gatheringPresent(
  services: Iterable<readonly DesiredServicePort[]>,
  { family, ...rest }: Omit<Present, "servicePorts"> & { readonly family: Family },
): Generator<undefined, Present> {
  const servicePorts = new Map<string, DesiredServicePort>();
  let count = 0;
  for (const ports of services) {
    if (++count % BATCH === 0) yield;
    if (!ports.some(isUdp)) continue;
    for (const [key, { servicePort }] of udpFrontends(ports, family)) {
      servicePorts.set(key, servicePort);
    }
  }
  return { ...rest, servicePorts };
}

/**
 * Returns the entries that are stale.
 *
 * - The flow goes to a virtual IP and its port, or to a node port on one of the node's own addresses that take node
 *   ports. A port alone proves nothing: pods talk to the same port of hosts elsewhere.
 * - The frontend is present and its answers do not come from one of its endpoints, or it is gone
 *   and its answers come from one of its former endpoints. A flow to a gone frontend that was not
 *   translated, or that another program translated, is not ours.
 * - A flow in a conntrack zone of its own that was not translated is left alone: Open vSwitch and
 *   others track a packet once before and once after its translation.
 */
export function* staleEntries(
  entries: Iterable<ConntrackEntry>,
  { suspects, present }: {
    readonly suspects: ReadonlyMap<string, Suspect>;
    readonly present: Present;
  },
): Generator<ConntrackEntry> {
  const endpoints = new Map<DesiredServicePort, ReadonlySet<string>>();
  for (const entry of entries) {
    const { protocol, original, reply, zoned } = entry;
    if (protocol !== "udp") continue;
    const source = hostPort(reply.src, reply.sport);
    const isTranslated = source !== hostPort(original.dst, original.dport);
    if (!isTranslated && zoned) continue;
    const key = destinationKey(entry, { suspects, present });
    const servicePort = present.servicePorts.get(key);
    if (servicePort) {
      const serving = endpoints.get(servicePort) ?? endpointsOf(servicePort);
      endpoints.set(servicePort, serving);
      if (!serving.has(source)) yield entry;
    } else if (isTranslated && suspects.get(key)?.former.has(source)) {
      yield entry;
    }
  }
}

/** Returns the key of the virtual IP that a flow goes to, or of the node port, if its destination can be one. */
function destinationKey(
  { original: { dst, dport } }: ConntrackEntry,
  { suspects, present }: {
    readonly suspects: ReadonlyMap<string, Suspect>;
    readonly present: Present;
  },
): string {
  const { node, localAddresses, servicePorts } = present;
  const vip = frontendKey({ address: dst, protocol: "udp", port: dport });
  const nodePort = frontendKey({ address: undefined, protocol: "udp", port: dport });
  const isNodePort = !servicePorts.has(vip) &&
    (servicePorts.has(nodePort) || suspects.has(nodePort)) &&
    takesNodePorts(dst, { node, isOwn: localAddresses.has(dst) });
  return isNodePort ? nodePort : vip;
}
