/** Checks the needs of signpost: the API server, programs, ports, and limits of the kernel. */
import { answersOnLoopback } from "../policy/node.ts";
import { cidrTest, FAMILIES, type Family } from "../model/values/address.ts";
import { eachPort, type NodeFacts } from "./facts.ts";
import type { Finding } from "../model/status.ts";
import { finding } from "./catalog.ts";
import { serviceOf } from "../model/cluster/names.ts";

/** The most Services in one finding. */
const MOST_SERVICES = 20;

/** The remedy if the other proxy's processes are not visible. */
const RESTART =
  "Stop the other proxy, such as the DaemonSet kube-proxy in kube-system, or the program " +
  "that restores its rules, such as netfilter-persistent. Then start signpost again: it removes " +
  "the rules at its start.";

/** The share of entries from which the table of connection tracking is almost full. */
const ALMOST = 0.9;

/** Finds another proxy, changed rules, refused kernel settings, and an almost full table of connection tracking. */
export function* checkSystem(
  { rival, drift, system, settingFailures = [] }: NodeFacts,
): Generator<Finding> {
  if (rival) {
    const rules = rival.rules.join(", ");
    const who = rival.processes.join(", ");
    const what = who
      ? `another proxy keeps writing its rules on this node: ${rules} (${who})`
      : `rules of another proxy are on this node again: ${rules} (its processes are not visible from here)`;
    // From a pod, the end of a process elsewhere is not visible.
    const remedy = rival.processes.length === 0 ? { remedy: RESTART } : {};
    yield finding("another-proxy", { what, where: "kube-proxy", ...remedy });
  }
  if (drift) {
    const { missing, added, by } = drift;
    const changes = [
      missing && `missing: ${missing}`,
      added && `added: ${added}`,
      by && `by ${by}`,
    ];
    const what = `another program has changed our rules: ${
      changes.filter((each) => each).join("; ")
    }`;
    yield finding("rules-changed", { what, where: "rules" });
  }
  for (const { name, value, reason } of settingFailures) {
    const what = `${name} could not be set to ${value}: ${reason}`;
    const remedy = `Run sysctl -w ${name}=${value} on the node, or set the setting's value to 0.`;
    yield finding("kernel-setting-refused", { what, where: name, remedy });
  }
  const conntrack = system?.conntrack;
  if (conntrack && conntrack.entries >= ALMOST * conntrack.max) {
    const what = `connection tracking has ${conntrack.entries} of ${conntrack.max} entries`;
    yield finding("conntrack-table-almost-full", { what, where: "net.netfilter.nf_conntrack_max" });
  }
}

/** Compares `route_localnet` with the need for it: node ports on 127.0.0.1 in iptables mode. */
export function* checkRouteLocalnet({ objects, traits, system }: NodeFacts): Generator<Finding> {
  const value = system?.routeLocalnet;
  if (!objects || value === undefined) return;
  const where = "net.ipv4.conf.all.route_localnet";
  if (answersOnLoopback(objects.desired.node, 4)) {
    if (value !== "0") return;
    const what = `node ports do not answer on loopback: ${where} is 0`;
    return yield finding("route-localnet-off", { what, where });
  }
  // Other proxies and iptables mode set it. nftables mode never needs it.
  if (traits.localhostNodePorts === "rules" || value === "0") return;
  const what = `${where} is ${value} and no node port needs it: only signpost's rules keep ` +
    "neighbours from programs that listen on 127.0.0.1";
  yield finding("route-localnet-on", { what, where });
}

/** The setting by which the kernel forwards packets. */
export const FORWARDING: Readonly<Record<Family, string>> = {
  4: "net.ipv4.ip_forward",
  6: "net.ipv6.conf.all.forwarding",
};

/** The setting by which packets between ports of a bridge pass connection tracking. */
export const BRIDGE_FILTER: Readonly<Record<Family, string>> = {
  4: "net.bridge.bridge-nf-call-iptables",
  6: "net.bridge.bridge-nf-call-ip6tables",
};

/** Finds settings by which the kernel loses packets to endpoints, in the families that have such endpoints. */
export function* checkForwarding(
  { objects, system, interfaceAddresses }: NodeFacts,
): Generator<Finding | undefined> {
  if (!objects || !system) return;
  const { forwards, filtersBridges, bridges = [] } = system;
  const isSuspect = (family: Family) =>
    forwards?.[family] === false || filtersBridges?.[family] === false && bridges.length > 0;
  if (!FAMILIES.some(isSuspect)) return;
  const own = new Set(interfaceAddresses);
  const ranges = bridges.map((range) => ({ range, contains: cidrTest(range) }));
  /** The problem of each setting. */
  const found = new Map<string, Finding>();
  yield* eachPort(objects.desired, ({ family, clusterEndpoints }) => {
    const others = clusterEndpoints.filter(({ address }) => !own.has(address));
    const [pod] = others;
    if (pod && forwards?.[family] === false) {
      const where = FORWARDING[family];
      const what = `${where} is 0: this node forwards no IPv${family} packets to pods`;
      found.set(where, finding("forwarding-off", { what, where, remedy: remedyFor(where) }));
    }
    if (filtersBridges?.[family] !== false) return false;
    const where = BRIDGE_FILTER[family];
    if (found.has(where)) return false;
    for (const { address } of others.filter(({ local }) => local)) {
      const bridge = ranges.find(({ contains }) => contains(address));
      if (!bridge) continue;
      const what = `${where} is not 1: pods on a bridge (${bridge.range}) do not reach ` +
        `Services whose endpoint is on the same bridge, such as ${address}`;
      const remedy = `Run modprobe br_netfilter. ${remedyFor(where)}`;
      found.set(where, finding("bridge-filter-off", { what, where, remedy }));
    }
    return false;
  });
  yield* found.values();
}

function remedyFor(setting: string): string {
  return `Run sysctl -w ${setting}=1, and write ${setting} = 1 into a file of /etc/sysctl.d.`;
}

/** Finds why signpost cannot read objects: one finding for the connection, and one for each refused kind. */
export function* checkApiServer({ apiServer, excess }: NodeFacts): Generator<Finding> {
  if (excess) yield finding("objects-without-memory", { what: excess.reason, where: excess.kind });
  if (!apiServer) return;
  const { where, warnings, failures } = apiServer;
  for (const what of warnings) yield finding("api-access-unsafe", { what, where });
  const others = failures.filter(({ isRefusal }) => !isRefusal);
  const unreachable = others.find(({ isSlow }) => !isSlow);
  if (unreachable) yield finding("api-server-unreachable", { what: unreachable.message, where });
  else if (others[0]) yield finding("api-server-slow", { what: others[0].message, where });
  for (const { kind, message, isRefusal, isOptional } of failures) {
    if (!isRefusal) continue;
    const id = isOptional ? "optional-objects-refused" : "api-server-refuses";
    yield finding(id, { what: message, where: kind });
  }
}

/** Finds health-check node ports that lead to another Service's endpoints. */
export function* checkHealthCheckPorts({ objects }: NodeFacts): Generator<Finding | undefined> {
  if (!objects || objects.desired.healthChecks.size === 0) return;
  const services = Map.groupBy(objects.desired.healthChecks, ([, { port }]) => port);
  const shared = new Map<string, Finding>();
  yield* eachPort(objects.desired, ({ name, protocol, nodePort }) => {
    const checked = protocol === "tcp" ? services.get(nodePort) : undefined;
    for (const [service] of checked ?? []) {
      const each = finding("health-check-port-is-node-port", {
        what: `health-check node port ${nodePort} of ${service} is the node port of ${name}`,
        where: `${service} port ${nodePort}`,
        services: [...new Set([service, serviceOf(name)])],
      });
      shared.set(`${service} ${name}`, each);
    }
    return false;
  });
  yield* shared.values();
}

/** Finds Services whose flows routers may move: conntrack refuses a flow that returns after packets went elsewhere. */
export function* checkMovedConnections(
  { objects, configuration }: NodeFacts,
): Generator<Finding | undefined> {
  if (!objects || configuration.conntrack.tcpBeLiberal) return;
  const services = new Set<string>();
  yield* eachPort(objects.desired, (port) => {
    const isMoving = port.scheduler?.type === "consistent-hash" && port.protocol === "tcp" &&
      port.loadBalancerIPs.length + port.externalIPs.length > 0;
    if (isMoving) services.add(serviceOf(port.name));
    return services.size >= MOST_SERVICES;
  });
  if (services.size === 0) return;
  yield finding("hash-without-liberal-conntrack", {
    what: `${[...services].join(", ")} has external addresses and is spread by a hash: ` +
      "TCP connections that routers move between nodes become invalid when they come back",
    where: "conntrack.tcpBeLiberal",
    services: [...services],
  });
}
