/**
 * The network that `examples/` describes: a host for each pod, with servers on its ports.
 *
 * @module
 */
import { parseAll } from "@std/yaml";
import type { Network } from "../../tests/support/network.ts";
import type { Topology } from "../../tests/support/topology.ts";

/** The folder with the manifests. */
export const EXAMPLES = new URL("../../examples/", import.meta.url).pathname;

/** Flags of signpost on the node of the examples. */
export const FLAGS: readonly string[] = [
  `--config=${EXAMPLES}config.yaml`,
  "--hostname-override=node-1",
];

/** Flags of the daemon besides: it sets and keeps nothing outside of its namespace. */
export const DAEMON_FLAGS: readonly string[] = [
  "--state-file=",
  "--socket=",
  "--conntrack-max-per-core=0",
];

/** The pod that takes the place of `web-3` in the course of the demonstration. */
export const NEWCOMER = {
  replaces: "web-3",
  name: "web-4",
  addresses: [["10.244.2.11", "10.244.2.12"], ["fd00:10:244:2::11", "fd00:10:244:2::12"]],
} as const;

/** Hosts that are no endpoints: a pod of the node, and clients outside of the cluster. */
const OTHERS: Readonly<Record<string, readonly string[]>> = {
  pod: ["10.244.0.99", "fd00:10:244::99"],
  client: ["203.0.113.10", "2001:db8:203::10"],
  stranger: ["198.51.100.10"],
  [NEWCOMER.name]: NEWCOMER.addresses.map(([, address]) => address),
};

/** The parts of the example objects that a network is made of. */
interface ExampleObject {
  readonly kind: string;
  readonly ports?: readonly { readonly protocol: string; readonly port: number }[];
  readonly endpoints?: readonly {
    readonly addresses: readonly [string];
    readonly targetRef: { readonly name: string };
  }[];
  readonly status?: { readonly addresses?: readonly { type: string; address: string }[] };
}

/** A server of a host. */
interface Server {
  readonly host: string;
  readonly protocol: "tcp" | "udp";
  readonly port: number;
}

/** The objects of `examples/`. */
export interface ExampleCluster {
  readonly topology: Topology;
  readonly servers: readonly Server[];
  /** How many objects of each kind there are. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Reads the manifests of `examples/`. */
export async function readExamples(): Promise<ExampleCluster> {
  const hosts = new Map<string, Set<string>>();
  const servers = new Map<string, Server>();
  const counts: Record<string, number> = {};
  const node: string[] = [];
  for (const object of await readObjects()) {
    counts[object.kind] = (counts[object.kind] ?? 0) + 1;
    if (object.kind === "Node") {
      node.push(...internalAddresses(object));
    } else if (object.kind === "EndpointSlice") {
      for (const { addresses: [address], targetRef } of object.endpoints ?? []) {
        hosts.set(targetRef.name, (hosts.get(targetRef.name) ?? new Set()).add(address));
        for (const server of serversOf(targetRef.name, object)) {
          servers.set(JSON.stringify(server), server);
        }
      }
    }
  }
  const pods = [...hosts].map(([name, addresses]) => [name, [...addresses]] as const);
  const newcomer = { host: NEWCOMER.name, protocol: "tcp", port: 8080 } as const;
  return {
    topology: { node, hosts: { ...Object.fromEntries(pods), ...OTHERS } },
    servers: [...servers.values(), newcomer],
    counts,
  };
}

/** Starts the servers. SCTP has none: the programs of the demonstration do not speak it. */
export function serveAll(network: Network, servers: readonly Server[]): void {
  for (const { host, ...where } of servers) network.serve(host, where);
}

async function readObjects(): Promise<ExampleObject[]> {
  const objects: ExampleObject[] = [];
  for await (const { name } of Deno.readDir(EXAMPLES)) {
    if (!name.endsWith(".yaml")) continue;
    const documents = parseAll(await Deno.readTextFile(`${EXAMPLES}${name}`));
    objects.push(...documents as ExampleObject[]);
  }
  return objects;
}

function internalAddresses({ status }: ExampleObject): string[] {
  return (status?.addresses ?? [])
    .filter(({ type }) => type === "InternalIP").map(({ address }) => address);
}

function serversOf(host: string, { ports = [] }: ExampleObject): Server[] {
  return ports.filter(({ protocol }) => protocol !== "SCTP").map(({ protocol, port }) => ({
    host,
    protocol: protocol === "UDP" ? "udp" : "tcp",
    port,
  }));
}
