/**
 * The virtual IPs and node ports of UDP service ports, with the endpoints behind each.
 *
 * @module
 */
import { FAMILIES, type Family } from "../model/values/address.ts";
import type { DesiredServicePort } from "../model/kernel/desired.ts";
import { hostPort, nodePortKey, vipKey } from "../model/cluster/names.ts";

/** A virtual IP with its port, or a node port, of one family. */
export interface Frontend {
  /** The virtual IP; `undefined`: a node port, on whatever address of the node takes it. */
  readonly address: string | undefined;
  readonly port: number;
  /** `address:port` of every endpoint that a flow may stay on. */
  readonly endpoints: ReadonlySet<string>;
}

/** Frontends of one family, by `vipKey` or `nodePortKey`. */
export type Frontends = ReadonlyMap<string, Frontend>;

/** Frontends of both families. */
export type FrontendsByFamily = Readonly<Record<Family, Frontends>>;

/** Finds the UDP frontends of service ports; those of other protocols have none. */
export function frontendsOf(ports: Iterable<DesiredServicePort>): FrontendsByFamily {
  const found: Record<Family, Map<string, Frontend>> = { 4: new Map(), 6: new Map() };
  for (const port of ports) {
    if (port.protocol !== "udp") continue;
    const endpoints = endpointsOf(port);
    for (const { key, ...frontend } of addressesOf(port)) {
      const known = found[port.family].get(key);
      found[port.family].set(key, {
        ...frontend,
        endpoints: known ? known.endpoints.union(endpoints) : endpoints,
      });
    }
  }
  return found;
}

/** Whether there is no frontend at all. */
export function isEmpty(frontends: FrontendsByFamily): boolean {
  return FAMILIES.every((family) => frontends[family].size === 0);
}

/** The key under which a flow to this destination finds its virtual IP. */
export function udpVip(address: string, port: number): string {
  return vipKey(address, "udp", port);
}

/** The key under which a flow to this port of the node finds its node port. */
export function udpNodePort(port: number): string {
  return nodePortKey("udp", port);
}

/**
 * Flows stay on every endpoint that still serves, whatever the policies and the topology say of
 * new ones: kube-proxy treats UDP as TCP there (`pkg/proxy/conntrack/cleanup.go`).
 */
function endpointsOf(port: DesiredServicePort): Set<string> {
  const { clusterEndpoints, localEndpoints, otherServingEndpoints = [] } = port;
  return new Set(
    [...clusterEndpoints, ...localEndpoints, ...otherServingEndpoints].map((endpoint) =>
      hostPort(endpoint.address, endpoint.port)
    ),
  );
}

function addressesOf(
  { clusterIPs, externalIPs, loadBalancerIPs, port, nodePort }: DesiredServicePort,
): { readonly key: string; readonly address: string | undefined; readonly port: number }[] {
  const vips = [...clusterIPs, ...externalIPs, ...loadBalancerIPs].map((address) => ({
    key: udpVip(address, port),
    address,
    port,
  }));
  return nodePort === 0
    ? vips
    : [...vips, { key: udpNodePort(nodePort), address: undefined, port: nodePort }];
}
