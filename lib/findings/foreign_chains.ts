/** Checks base chains of other programs: firewalls that drop packets of Services, and nat chains before ours. */
import type { Sender } from "../config/command.ts";
import { ADDRESS_BITS, type Family, familyOf } from "../model/values/address.ts";
import { serviceOf } from "../model/cluster/names.ts";
import {
  type DesiredNode,
  type DesiredServicePort,
  type Destination,
  endpointsFor,
} from "../model/kernel/desired.ts";
import type { Finding } from "../model/status.ts";
import { finding } from "./catalog.ts";
import { eachPort, type ForeignChain, type NodeFacts } from "./facts.ts";
import { Interfaces, podRanges } from "./interfaces.ts";
import { type BaseChain, type Link, type Mark, type Packet, PacketWalk } from "./packet_walk.ts";

/** The priority of our nat chains at prerouting and output in nftables mode. In iptables mode it is one more. */
const NAT_PRIORITY = -101;

/** The priority at which connection tracking sees packets of prerouting and output. */
const CONNTRACK_PRIORITY = -200;

/** The priority of postrouting at which masquerading replaces the source. */
const SNAT_PRIORITY = 100;

/** Returns the base chains of some types. */
export function baseChains({ ruleset }: NodeFacts, types: readonly string[]): BaseChain[] {
  return (ruleset?.chains ?? []).flatMap(({ hook, ...rest }) =>
    hook && types.includes(hook.type) ? [{ ...rest, hook }] : []
  );
}

/** Finds nat chains that run before ours, or may do so. */
export function* checkNatOrder(facts: NodeFacts): Generator<Finding> {
  for (const { table, name, hook } of baseChains(facts, ["nat"])) {
    if (!["prerouting", "output"].includes(hook.hook) || hook.priority > NAT_PRIORITY) continue;
    const what = `chain ${name} of table ${table} does NAT at ${hook.hook} with priority ` +
      `${hook.priority}, before Services`;
    yield finding("nat-chain-before-ours", { what, where: `chain ${table} ${name}` });
  }
}

/** The first packet of a connection to a Service, and facts that decide its way through the hooks. */
interface Flow {
  readonly sender: Sender;
  /** `forward`: to an endpoint at another address. `input`: to an endpoint at an address of this node. */
  readonly path: "forward" | "input";
  readonly service: string;
  readonly family: Family;
  readonly protocol: string;
  readonly frontend: Address;
  /** Absent: a health check, which no DNAT changes. */
  readonly endpoint?: Address;
  /** Our mark for masquerading, after the DNAT. */
  readonly mark: number;
}

type Address = Pick<Destination, "address" | "port">;

/** The hooks that a packet passes, in order. */
const HOOKS = {
  forward: ["ingress", "prerouting", "forward", "postrouting", "egress"],
  input: ["ingress", "prerouting", "input"],
  /** The hooks of this node's own packets to other hosts. */
  output: ["output", "postrouting", "egress"],
} as const;

interface PacketFacts {
  readonly facts: NodeFacts;
  readonly interfaces: Interfaces;
}

/** A packet at a base chain, and the chain's verdict on it. */
interface Passage {
  readonly flow: Flow;
  readonly packet: Packet;
  readonly verdict: "accepts" | "may drop" | "drops";
}

/** Finds firewalls that drop new connections to Services, or to health-check node ports. */
export function* checkFirewalls(facts: NodeFacts): Generator<Finding | undefined> {
  const bases = baseChains(facts, ["filter", "route"]);
  if (bases.length === 0 || !facts.ruleset) return;
  const walk = new PacketWalk(facts.ruleset.chains);
  const interfaces = new Interfaces(facts);
  const passages = new Map<BaseChain, Passage[]>();
  for (const flow of yield* flowsOf(facts)) {
    let mark: Mark = 0;
    for (const { base, packet } of chainsOf(flow, { facts, bases, interfaces })) {
      yield;
      const outcome = walk.through(base, {
        packet,
        mark: mark !== undefined && packet.isTranslated ? (mark | flow.mark) >>> 0 : mark,
      });
      mark = outcome.mark;
      passages.getOrInsertComputed(base, () => []).push({ flow, packet, verdict: outcome.verdict });
    }
  }
  const { chains } = facts.ruleset;
  for (const [base, all] of passages) {
    for (const part of Map.groupBy(all, ({ flow }) => flow.endpoint === undefined).values()) {
      yield describe(base, { passages: part, chains });
    }
  }
}

/** Returns the base chains that a packet passes, in order, and the packet as each chain sees it. */
function chainsOf(
  flow: Flow,
  { bases, ...known }: PacketFacts & { readonly bases: readonly BaseChain[] },
): { readonly base: BaseChain; readonly packet: Packet }[] {
  const { sender, endpoint } = flow;
  const hooks: readonly string[] = HOOKS[sender === "node" ? "output" : flow.path];
  const links = {
    in: sender === "node" ? NO_LINK : known.interfaces.from(sender, flow.family),
    out: endpoint && known.interfaces.to(endpoint.address),
  };
  const place = ({ hook: { hook, priority } }: BaseChain) =>
    [hooks.indexOf(hook), priority] as const;
  const isPassed = ({ table, hook: { hook, devices } }: BaseChain) => {
    const link = hook === "egress" ? links.out : links.in;
    return hooks.includes(hook) && seesFamily(table, flow.family) &&
      (devices.length === 0 || link?.names.some((each) => devices.includes(each)) === true);
  };
  return bases.filter(isPassed)
    .toSorted((a, b) => place(a)[0] - place(b)[0] || place(a)[1] - place(b)[1])
    .map((base) => ({ base, packet: packetAt(base, { ...known, flow, links }) }));
}

/** Returns true if the chains of a table, such as `inet hostfw`, see packets of an IP family. */
export function seesFamily(table: string, family: Family): boolean {
  return new RegExp(`^(?:inet|netdev|ip${family === 6 ? "6" : ""}(?:tables-legacy)?) `).test(table);
}

interface Links {
  readonly in: Link | undefined;
  readonly out: Link | undefined;
}

export const NO_LINK: Link = { names: [], isOfOneHost: false };

/** Returns the first packet of a flow as a base chain sees it. */
function packetAt(
  { hook: { hook, priority } }: BaseChain,
  { flow, links, facts, interfaces }: PacketFacts & { readonly flow: Flow; readonly links: Links },
): Packet {
  const { family, protocol, frontend, endpoint, sender } = flow;
  const isEarly = hook === "prerouting" || hook === "output";
  const isTranslated = endpoint !== undefined && hook !== "ingress" &&
    (!isEarly || priority > NAT_PRIORITY);
  const isTracked = hook !== "ingress" && (!isEarly || priority > CONNTRACK_PRIORITY);
  const isRewritten = hook === "egress" || hook === "postrouting" && priority >= SNAT_PRIORITY;
  const { address: daddr, port: dport } = isTranslated ? endpoint : frontend;
  // The hook `output` keeps the route to the frontend.
  const out = hook === "output" ? interfaces.to(frontend.address) : links.out;
  return {
    family,
    protocol,
    daddr,
    dport,
    isLocal: isOwn(daddr, facts),
    state: isTracked ? "new" : "invalid",
    isTranslated,
    source: isRewritten ? { in: [], notIn: [] } : sourceOf(sender, { family, facts }),
    iif: links.in,
    oif: ["ingress", "prerouting", "input"].includes(hook) ? NO_LINK : out,
  };
}

export function isOwn(address: string, { interfaceAddresses, objects }: NodeFacts): boolean {
  return interfaceAddresses.includes(address) ||
    objects?.node?.addresses.includes(address) === true;
}

/** Returns the known ranges of a sender's addresses. */
export function sourceOf(
  sender: Sender,
  { family, facts }: { readonly family: Family; readonly facts: NodeFacts },
): Packet["source"] {
  const { configuration: { clusterCIDRs }, interfaceAddresses } = facts;
  const isOfFamily = (each: string) => familyOf(each) === family;
  switch (sender) {
    case "external":
      return { in: [], notIn: clusterCIDRs };
    case "pod":
      return { in: podRanges(facts, family), notIn: [] };
    case "node":
      return {
        in: interfaceAddresses.filter(isOfFamily).map((each) => `${each}/${ADDRESS_BITS[family]}`),
        notIn: [],
      };
  }
}

/** The most sample packets of one kind. */
const MOST_FLOWS = 20;

/** Returns sample packets from outside, pods and this node, to endpoints on this node, in its pods and elsewhere. */
function* flowsOf(facts: NodeFacts): Generator<undefined, Flow[]> {
  const { objects } = facts;
  if (!objects) return [];
  const { node } = objects.desired;
  const kinds = new Map<string, Flow[]>();
  const add = (kind: string, flow: Flow) => {
    const flows = kinds.get(kind) ?? [];
    if (flows.length < MOST_FLOWS) kinds.set(kind, [...flows, flow]);
  };
  yield* eachPort(objects.desired, (port) => {
    const { family, protocol, healthCheckNodePort } = port;
    const about = { service: serviceOf(port.name), family, protocol };
    const own = objects.node?.addresses.find((each) => familyOf(each) === family);
    if (healthCheckNodePort && own !== undefined) {
      const frontend = { address: own, port: healthCheckNodePort };
      const kept = { sender: "external", path: "input", mark: 0 } as const;
      add(`check ${family}`, { ...about, ...kept, protocol: "tcp", frontend });
    }
    for (const { sender, frontend, endpoints, isMarked } of routesTo(port, { node, own })) {
      const places = Map.groupBy(
        endpoints.slice(0, MOST_ENDPOINTS),
        ({ address, local }) => isOwn(address, facts) ? "own" : local ? "local" : "remote",
      );
      for (const [place, [endpoint]] of places) {
        // This node's packets to itself go through the interface lo.
        if (!endpoint || sender === "node" && place === "own") continue;
        const path = place === "own" ? "input" : "forward";
        const mark = isMarked ? node.masqueradeMark : 0;
        add(`${sender} ${place} ${family} ${mark}`, {
          ...about,
          ...{ sender, path, frontend, endpoint, mark },
        });
      }
    }
    return false;
  });
  return [...kinds.values()].flat();
}

/** The most endpoints of a Service that are looked at. */
const MOST_ENDPOINTS = 100;

/** Returns the frontend of a service port for each sender, its endpoints, and if packets are masqueraded. */
function routesTo(
  port: DesiredServicePort,
  { node, own }: { readonly node: DesiredNode; readonly own: string | undefined },
) {
  const { clusterIPs: [clusterIP], nodePort, internalTrafficPolicy, externalTrafficPolicy } = port;
  const [virtualIP] = [...port.loadBalancerIPs, ...port.externalIPs];
  const atNode = nodePort !== 0 && own !== undefined
    ? { address: own, port: nodePort }
    : virtualIP !== undefined && { address: virtualIP, port: port.port };
  const inside = clusterIP !== undefined && {
    frontend: { address: clusterIP, port: port.port },
    endpoints: endpointsFor(port, internalTrafficPolicy),
  };
  const { masqueradeAll, families } = node;
  const seesNode = families[port.family].localDetector !== undefined;
  return [
    ...atNode
      ? [{
        sender: "external" as const,
        frontend: atNode,
        endpoints: endpointsFor(port, externalTrafficPolicy),
        isMarked: externalTrafficPolicy === "Cluster",
      }]
      : [],
    ...inside
      ? [
        { sender: "pod" as const, ...inside, isMarked: masqueradeAll },
        { sender: "node" as const, ...inside, isMarked: masqueradeAll || seesNode },
      ]
      : [],
  ];
}

/** Makes the finding about a chain; `undefined`: the chain drops nothing. */
function describe(
  base: BaseChain,
  { passages, chains }: {
    readonly passages: readonly Passage[];
    readonly chains: readonly ForeignChain[];
  },
): Finding | undefined {
  const [certain, possible] = ["drops", "may drop"].map((verdict) =>
    passages.filter((each) => each.verdict === verdict)
  );
  const lost = certain?.length ? certain : possible ?? [];
  const [first] = lost;
  if (!first) return undefined;
  const kindOf = ({ flow }: Passage) => `${flow.sender} ${flow.path}`;
  const drops = [...new Set(lost.map(kindOf))];
  const isCheck = first.flow.endpoint === undefined;
  // A chain that drops all packets of a kind concerns all Services.
  const isWhole = !isCheck &&
    passages.filter((each) => drops.includes(kindOf(each))).length === lost.length;
  const services = [...new Set(lost.map(({ flow }) => flow.service))];
  const program = programOf(base, chains);
  const { daddr, dport, protocol } = first.packet;
  const senders = [...new Set(lost.map(({ flow }) => SENDERS[flow.sender]))].join(" and ");
  const subject =
    `chain ${base.name} of table ${base.table}${program ? ` (${program.name})` : ""} ` +
    (lost === certain ? "drops" : "may drop");
  const packets = isCheck
    ? `health checks at node port ${dport} (${first.flow.service})`
    : `connections from ${senders} that Services send to endpoints, such as ` +
      `${first.flow.service} to ${daddr} ${protocol} port ${dport}`;
  const id = lost !== certain
    ? "firewall-may-drop"
    : isCheck
    ? "firewall-drops-health-checks"
    : "firewall-drops-services";
  return finding(id, {
    what: `${subject} ${packets}`,
    where: `chain ${base.table} ${base.name}`,
    remedy: remedyFor(base, { lost, program }),
    services: isWhole ? [] : services,
    ...isCheck ? {} : { drops },
  });
}

const SENDERS: Readonly<Record<Sender, string>> = {
  external: "outside",
  pod: "pods",
  node: "this node",
};

/** A program that replaces rules in its chains, and its own command to accept packets. */
interface Program {
  readonly name: string;
  /** @param ports such as `80/tcp`; empty: all packets after our DNAT @returns `""`: it has no command for them */
  readonly accept: (ports: readonly string[], base: BaseChain) => string;
}

const ACCEPT_TRANSLATED = "-m conntrack --ctstate DNAT -j ACCEPT";

const UFW: Program = {
  name: "ufw",
  accept: (ports) =>
    ports.length === 0
      ? "ufw default allow routed"
      : ports.map((each) => `ufw allow ${each}`).join(" && "),
};

const FIREWALLD: Program = {
  name: "firewalld",
  accept: (ports) =>
    ports.length === 0
      ? ""
      : `firewall-cmd --permanent ${ports.map((each) => `--add-port=${each}`).join(" ")} && ` +
        "firewall-cmd --reload",
};

const DOCKER: Program = {
  name: "Docker",
  accept: (ports, { table }) =>
    ports.length === 0 ? `${iptablesOf(table)} -I DOCKER-USER ${ACCEPT_TRANSLATED}` : "",
};

/** Returns the program that made a chain; `undefined`: it is not known. */
function programOf(
  { table, name }: BaseChain,
  chains: readonly ForeignChain[],
): Program | undefined {
  const has = (chain: string) => chains.some((each) => each.table === table && each.name === chain);
  const hook = name.toLowerCase();
  if (/^\S+ firewalld/.test(table)) return FIREWALLD;
  if (has(`ufw-before-${hook}`) || has(`ufw6-before-${hook}`)) return UFW;
  return has("DOCKER-USER") && name === "FORWARD" ? DOCKER : undefined;
}

function iptablesOf(table: string): string {
  return `${table.startsWith("ip6") ? "ip6tables" : "iptables"}${
    table.includes("-legacy") ? "-legacy" : ""
  }`;
}

/** Returns the line to type: the program's own command, else one of iptables or nft. */
function remedyFor(
  base: BaseChain,
  { lost, program }: { readonly lost: readonly Passage[]; readonly program: Program | undefined },
): string {
  const { table, name } = base;
  const ports = [...new Set(lost.map(({ packet }) => `${packet.dport}/${packet.protocol}`))];
  const isTranslated = lost.every(({ packet }) => packet.isTranslated);
  const isForwarded = isTranslated && lost.some(({ flow }) => flow.path === "forward");
  const own = program?.accept(isForwarded ? [] : ports, base);
  if (own) return `Accept them: ${own}`;
  // Only iptables names its chains in capitals.
  const [, kind = ""] = /^ip6?(?:tables-legacy)? (filter|mangle|raw|security)$/.exec(table) ?? [];
  const isIptables = kind !== "" && name === name.toUpperCase();
  const insert = isIptables
    ? `${iptablesOf(table)} ${kind === "filter" ? "" : `-t ${kind} `}-I ${name}`
    : `insert rule ${table} ${name}`;
  if (isTranslated) {
    const line = isIptables
      ? `${insert} ${ACCEPT_TRANSLATED}`
      : `nft ${insert} ct status dnat accept`;
    return `Accept them: ${line}`;
  }
  const protocols = Map.groupBy(ports, (each) => each.split("/")[1] ?? "");
  const lines = [...protocols].map(([protocol, all]) => {
    const numbers = all.slice(0, MOST_PORTS).map((each) => each.split("/")[0] ?? "");
    const isOne = numbers.length === 1;
    if (isIptables) {
      const option = isOne ? "--dport" : "-m multiport --dports";
      return `${insert} -p ${protocol} ${option} ${numbers.join(",")} -j ACCEPT`;
    }
    // A shell expands braces.
    return isOne
      ? `nft ${insert} ${protocol} dport ${numbers.join()} accept`
      : `nft '${insert} ${protocol} dport { ${numbers.join(", ")} } accept'`;
  });
  return `Accept them: ${lines.join(" && ")}`;
}

/** The limit of iptables' match multiport. */
const MOST_PORTS = 15;
