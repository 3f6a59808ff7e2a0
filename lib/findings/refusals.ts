/** Checks if another program accepts packets before iptables mode rejects them. */
import { serviceOf } from "../model/cluster/names.ts";
import {
  type DesiredServicePort,
  endpointsFor,
  noEndpointsReason,
  usedEndpoints,
} from "../model/kernel/desired.ts";
import type { Finding } from "../model/status.ts";
import { ADDRESS_BITS, familyOf } from "../model/values/address.ts";
import { finding } from "./catalog.ts";
import { eachPort, type NodeFacts } from "./facts.ts";
import { baseChains, isOwn, seesFamily } from "./foreign_chains.ts";
import { Interfaces } from "./interfaces.ts";
import { type BaseChain, PacketWalk } from "./packet_walk.ts";

/** The search ends when so many pods, and so many refused ports, are found. */
const MOST_SAMPLES = 20;

/** The first of our rules in FORWARD. */
const OUR_RULE = /jump KUBE-(?:PROXY-FIREWALL|FORWARD|SERVICES)$/;

/** Finds chains that accept packets of pods to Services without endpoints before our rules see them. */
export function* checkRefusals(facts: NodeFacts): Generator<Finding | undefined> {
  const { objects, ruleset, traits } = facts;
  const cuts = baseChains(facts, ["filter"]).flatMap(beforeOurs);
  // A mode that guards cluster IPs rejects before all of FORWARD. Such rules are kube-proxy's there.
  if (!objects || !ruleset || traits.guardsClusterIPs || cuts.length === 0) return;
  const pods = new Set<string>();
  const refused: DesiredServicePort[] = [];
  yield* eachPort(objects.desired, (port) => {
    for (const { address, local } of pods.size < MOST_SAMPLES ? usedEndpoints(port) : []) {
      if (local && !isOwn(address, facts)) pods.add(address);
    }
    if (isRefused(port)) refused.push(port);
    return pods.size >= MOST_SAMPLES && refused.length >= MOST_SAMPLES;
  });
  const walk = new PacketWalk([...ruleset.chains, ...cuts]);
  const interfaces = new Interfaces(facts);
  for (const cut of cuts) {
    const ports = refused.filter(({ family }) => seesFamily(cut.table, family));
    const [first] = ports;
    const [daddr] = first?.clusterIPs ?? [];
    if (!first || daddr === undefined) continue;
    const { family, protocol, port: dport } = first;
    const isAccepted = (pod: string) => {
      const iif = interfaces.to(pod);
      const packet = {
        ...{ family, protocol, daddr, dport, state: "new" } as const,
        ...{ isLocal: false, isTranslated: false },
        source: { in: [`${pod}/${ADDRESS_BITS[family]}`], notIn: [] },
        // The pod is the sender, so rules about its link decide for certain, not for one of many hosts.
        iif: iif && { ...iif, isOfOneHost: false },
        oif: interfaces.to(daddr),
      };
      return walk.through(cut, { packet, mark: 0 }).verdict === "accepts";
    };
    const pod = pods.values().find((each) => familyOf(each) === family && isAccepted(each));
    if (pod === undefined) continue;
    const services = [...new Set(ports.map(({ name }) => serviceOf(name)))];
    yield finding("reject-comes-late", {
      what: `chain ${cut.name} of table ${cut.table} accepts packets from the pod ${pod} before ` +
        `signpost's rules reject them: connections to Services without endpoints, such as ` +
        `${services[0]}, are not refused`,
      where: `chain ${cut.table} ${cut.name}`,
      services,
    });
  }
}

/** Returns the rules of FORWARD before ours, as a chain that drops what reaches our rules. */
function beforeOurs({ hook, rules, ...chain }: BaseChain): BaseChain[] {
  const end = rules.findIndex((rule) => OUR_RULE.test(rule));
  if (hook.hook !== "forward" || end < 0) return [];
  return [{ ...chain, hook: { ...hook, policy: "drop" }, rules: rules.slice(0, end) }];
}

function isRefused(port: DesiredServicePort): boolean {
  const { clusterIPs, internalTrafficPolicy: policy } = port;
  return clusterIPs.length > 0 && endpointsFor(port, policy).length === 0 &&
    noEndpointsReason(port, policy) === "no-endpoints";
}
