/** The links, addresses and routes of a test network, as commands for `ip -batch`. */

/** Short name of the node's namespace. */
export const NODE = "node";
/** Short name of the namespace where the node's default route leads. */
export const WORLD = "world";
/** The port of the servers of `world`; everything sent to it is redirected here. */
export const WORLD_PORT = 9;

/**
 * The node's address on every link (RFC 2544 and unique local ranges). It is the first of each
 * interface, so that masqueraded connections have it as their source, and never a node address.
 */
export const GATE: readonly string[] = ["198.18.0.1", "fdf1:e75::1"];

const WORLD_ADDRESSES: readonly string[] = ["198.18.0.254", "fdf1:e75::254"];

/** Has `world` answer on all ports. */
export const WORLD_RULES = `table inet world {
  chain prerouting {
    type nat hook prerouting priority dstnat
    meta l4proto { tcp, udp } redirect to :${WORLD_PORT}
  }
}
`;

/** Who is there. An IPv6 address is left out where the kernel has no IPv6. */
export interface Topology {
  /** The node's own addresses. */
  readonly node: readonly string[];
  /** Addresses of each host, by its name: at most 15 of `a-z`, `0-9`, `-`, an interface's name. */
  readonly hosts: Readonly<Record<string, readonly string[]>>;
}

/** The addresses of a host, `node` or `world`, of the families that the kernel has. */
export function addressesOf(topology: Topology, name: string, hasIpv6: boolean): readonly string[] {
  const all = allAddressesOf(topology, name);
  return hasIpv6 ? all : all.filter((address) => !isIpv6(address));
}

function allAddressesOf(topology: Topology, name: string): readonly string[] {
  if (name === NODE) return topology.node;
  if (name === WORLD) return WORLD_ADDRESSES;
  const addresses = topology.hosts[name];
  if (!addresses) throw new Error(`there is no host ${JSON.stringify(name)}`);
  return addresses;
}

/**
 * The commands that set up each namespace, in order.
 *
 * @param fullName tells the name by which `ip netns` knows a namespace
 * @param hasIpv6 false: there are only commands for IPv4
 * @returns pairs of short name and commands; those that begin with `-6 ` are for IPv6
 */
export function layOut(
  topology: Topology,
  fullName: (name: string) => string,
  hasIpv6: boolean,
): (readonly [name: string, commands: string[]])[] {
  const commands = layOutAll(topology, fullName);
  if (hasIpv6) return commands;
  const isIpv4 = (command: string) => !/^-6 |^addr add \S*:/.test(command);
  return commands.map(([name, lines]) => [name, lines.filter(isIpv4)] as const);
}

function layOutAll(
  topology: Topology,
  fullName: (name: string) => string,
): (readonly [name: string, commands: string[]])[] {
  const hosts = Object.keys(topology.hosts);
  const node = ["link set lo up", ...nodeLink("eth0", fullName(WORLD))];
  for (const host of hosts) node.push(...nodeLink(host, fullName(host)));
  node.push(...topology.node.map((address) => addAddress(address, "eth0")));
  for (const host of hosts) {
    node.push(...allAddressesOf(topology, host).map((address) => addRoute(address, host)));
  }
  const worldRoutes = WORLD_ADDRESSES.map((address) => defaultRoute(address));
  return [
    [NODE, [...node, ...worldRoutes]],
    [WORLD, [...hostLink(WORLD_ADDRESSES), ...answerEverything()]],
    ...hosts.map((host) => [host, hostLink(allAddressesOf(topology, host))] as const),
  ];
}

function nodeLink(link: string, peer: string): string[] {
  return [
    `link add ${link} type veth peer name eth0 netns ${peer}`,
    ...GATE.map((address) => addAddress(address, link)),
    `link set ${link} up`,
  ];
}

function hostLink(addresses: readonly string[]): string[] {
  return [
    "link set lo up",
    ...addresses.map((address) => addAddress(address, "eth0")),
    "link set eth0 up",
    ...GATE.flatMap((address) => [addRoute(address, "eth0"), defaultRoute(address)]),
  ];
}

/** Whatever comes from the node is taken for a local address. */
function answerEverything(): string[] {
  return ["", "-6 "].flatMap((family) => [
    `${family}rule add iif eth0 lookup 100`,
    `${family}route add local default dev lo table 100`,
  ]);
}

/** The `ip` command that gives an address to a link. */
export function addAddress(address: string, link: string): string {
  const suffix = isIpv6(address) ? "/128" : "/32";
  return `addr add ${address}${suffix} dev ${link}${isIpv6(address) ? " nodad" : ""}`;
}

function addRoute(address: string, link: string): string {
  return `${isIpv6(address) ? "-6 " : ""}route add ${address} dev ${link}`;
}

function defaultRoute(via: string): string {
  return `${isIpv6(via) ? "-6 " : ""}route add default via ${via} dev eth0 onlink`;
}

function isIpv6(address: string): boolean {
  return address.includes(":");
}
