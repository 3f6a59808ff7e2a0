/**
 * Which UDP flows may have become stale, and which of the kernel's entries are.
 *
 * A UDP flow keeps the endpoint of its first datagram for as long as its conntrack entry lives,
 * and every datagram prolongs that life. An entry that leads to an endpoint that is gone, or past
 * a Service that has come meanwhile, is a black hole until it is deleted (kube-proxy:
 * `pkg/proxy/conntrack/cleanup.go`, which leaves Services without endpoints and deleted ones out;
 * they are cleaned here).
 *
 * @module
 */
import { FAMILIES, type Family } from "../model/values/address.ts";
import type { DesiredNode, DesiredState, StateChange } from "../model/kernel/desired.ts";
import { atOnce } from "../model/ports/in_turns.ts";
import { hostPort } from "../model/cluster/names.ts";
import { changesFixedRules } from "../model/cluster/node_change.ts";
import { takesNodePorts } from "../policy/node.ts";
import {
  findingUdpFrontends,
  type Frontend,
  type Frontends,
  type FrontendsByFamily,
  udpNodePort,
  udpVip,
} from "./frontends.ts";
import type { ConntrackEntry } from "./parse.ts";

/** What to look for. No frontends in a family: nothing of it can be stale. */
export interface Suspects {
  /** Frontends that are served now: flows to them are stale unless one of the endpoints answers them. */
  readonly served: FrontendsByFamily;
  /** Frontends that are no more: flows to them are stale if one of the former endpoints answers them. */
  readonly gone: FrontendsByFamily;
}

/** What it takes to know the node's own flows. */
export interface NodeFacts {
  readonly node: DesiredNode;
  /** All addresses of the node's interfaces, canonical. Not needed where no node port is suspected. */
  readonly localAddresses: ReadonlySet<string>;
  /** Virtual IPs of the full state: a virtual IP goes before a node port. Not needed either. */
  readonly vips: ReadonlySet<string>;
}

/**
 * Gathers what `staleEntries` needs; the machine is asked for its addresses only if a node port is suspected.
 *
 * @yields where other work can be done
 */
export function* gatheringNodeFacts(
  state: DesiredState,
  options: { readonly suspects: Suspects; readonly localAddresses: () => Iterable<string> },
): Generator<undefined, NodeFacts> {
  const { served, gone } = options.suspects;
  const suspected = [served, gone].flatMap((each) =>
    FAMILIES.flatMap((f) => [...each[f].values()])
  );
  if (suspected.every(({ address }) => address !== undefined)) {
    return { node: state.node, localAddresses: new Set(), vips: new Set() };
  }
  const all = yield* findingUdpFrontends(state.services.values());
  const vips = FAMILIES.flatMap((family) => [...filter(all[family], isVip).keys()]);
  return {
    node: state.node,
    localAddresses: new Set(options.localAddresses()),
    vips: new Set(vips),
  };
}

/**
 * What a change may have made stale: frontends that lost an endpoint, that are new, that got
 * their first endpoint, or that are gone; all node ports where the node changed, for its addresses
 * may have. New endpoints beside old ones make nothing stale. The effort follows the change.
 *
 * @yields where other work can be done
 */
export function* suspectsOf(
  change: StateChange,
  state: DesiredState,
): Generator<undefined, Suspects> {
  // What a Service that stays as it was holds, no other one had or has.
  const changes = [...change.services.values()].filter(({ before, after }) => before !== after);
  yield;
  const before = yield* findingUdpFrontends(changes.map((each) => each.before));
  yield;
  const after = yield* findingUdpFrontends(changes.map((each) => each.after));
  yield;
  const served = eachFamily((family) =>
    filter(after[family], (key, { endpoints }) => {
      const former = before[family].get(key)?.endpoints;
      if (former === undefined) return true;
      return !former.isSubsetOf(endpoints) || former.size === 0 && endpoints.size > 0;
    })
  );
  const gone = eachFamily((family) =>
    filter(
      before[family],
      (key, { endpoints }) => !after[family].has(key) && endpoints.size > 0,
    )
  );
  yield;
  return { served: changesFixedRules(change) ? yield* withNodePorts(served, state) : served, gone };
}

/**
 * Every UDP frontend of the state: for the first sync after a start, of which it is not known what
 * it changed, and after a failure.
 *
 * @param gone frontends known to be gone, that have not been looked at yet
 * @yields where other work can be done
 */
export function* allSuspects(
  state: DesiredState,
  gone: readonly FrontendsByFamily[] = [],
): Generator<undefined, Suspects> {
  const served = yield* findingUdpFrontends(state.services.values());
  return {
    served,
    gone: eachFamily((family) =>
      new Map(gone.flatMap((each) => [...each[family]]).filter(([key]) => !served[family].has(key)))
    ),
  };
}

/** What of the suspects is left after the state has moved on, with the endpoints of now. */
export function stillSuspect({ served, gone }: Suspects, state: DesiredState): Suspects {
  const all = atOnce(findingUdpFrontends(state.services.values()));
  return {
    served: eachFamily((family) => filter(all[family], (key) => served[family].has(key))),
    gone: eachFamily((family) => filter(gone[family], (key) => !all[family].has(key))),
  };
}

/**
 * The entries that are stale, and no other ones.
 *
 * - The flow goes to a suspected frontend: a virtual IP and its port, or a node port on one of
 *   the node's own addresses that take node ports. A port alone proves nothing: pods talk to
 *   the same port of hosts elsewhere.
 * - The frontend is served and its answers do not come from one of its endpoints, or it is gone
 *   and its answers come from one of its former endpoints. A flow to a gone frontend that was not
 *   translated, or that another program translated, is not ours.
 * - A flow in a conntrack zone of its own that was not translated is left alone: Open vSwitch and
 *   others track a packet once before and once after its translation.
 */
export function* staleEntries(
  entries: Iterable<ConntrackEntry>,
  { suspects, facts }: { readonly suspects: Suspects; readonly facts: NodeFacts },
): Generator<ConntrackEntry> {
  for (const entry of entries) {
    const { family, protocol, original, reply, zoned } = entry;
    if (protocol !== "udp") continue;
    const served = suspects.served[family];
    const gone = suspects.gone[family];
    const key = destinationKey(entry, { served, gone, facts });
    const source = hostPort(reply.src, reply.sport);
    const translated = source !== hostPort(original.dst, original.dport);
    if (!translated && zoned) continue;
    const now = served.get(key);
    const stale = now
      ? !now.endpoints.has(source)
      : translated && gone.get(key)?.endpoints.has(source) === true;
    if (stale) yield entry;
  }
}

/** The virtual IP that a flow goes to, or else the node port, if its destination can be one. */
function destinationKey(
  { original: { dst, dport } }: ConntrackEntry,
  { served, gone, facts }: { served: Frontends; gone: Frontends; facts: NodeFacts },
): string {
  const vip = udpVip(dst, dport);
  const nodePort = udpNodePort(dport);
  const isNodePort = (served.has(nodePort) || gone.has(nodePort)) &&
    !facts.vips.has(vip) &&
    takesNodePorts(dst, { node: facts.node, isOwn: facts.localAddresses.has(dst) });
  return isNodePort ? nodePort : vip;
}

function* withNodePorts(
  served: FrontendsByFamily,
  state: DesiredState,
): Generator<undefined, FrontendsByFamily> {
  const all = yield* findingUdpFrontends(state.services.values(), ({ nodePort }) => nodePort !== 0);
  return eachFamily((family) =>
    new Map([
      ...served[family],
      ...filter(all[family], (key, frontend) => !isVip(key, frontend)),
    ])
  );
}

function filter(
  frontends: Frontends,
  keep: (key: string, frontend: Frontend) => boolean,
): Frontends {
  return new Map([...frontends].filter(([key, frontend]) => keep(key, frontend)));
}

function isVip(_key: string, { address }: Frontend): boolean {
  return address !== undefined;
}

function eachFamily(make: (family: Family) => Frontends): FrontendsByFamily {
  return { 4: make(4), 6: make(6) };
}
