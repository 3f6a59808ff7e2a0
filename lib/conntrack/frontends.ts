/**
 * The virtual IPs and node ports of UDP service ports, with the endpoints behind each.
 *
 * @module
 */
import { FAMILIES, type Family } from "../model/values/address.ts";
import type { DesiredServicePort } from "../model/kernel/desired.ts";
import { servingEndpoints } from "../model/kernel/port_endpoints.ts";
import { frontendKey, hostPort, nodePortKey, vipKey } from "../model/cluster/names.ts";
import { frontendsOf } from "../policy/frontend.ts";

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

/** Services that are looked at at one go. */
const BATCH = 100;

/**
 * Finds the UDP frontends of Services, by their ports; those of other protocols have none.
 *
 * @param isWanted of which ports; all where not given
 * @yields where other work can be done
 */
export function* findingUdpFrontends(
  services: Iterable<readonly DesiredServicePort[]>,
  isWanted: (port: DesiredServicePort) => boolean = () => true,
): Generator<undefined, FrontendsByFamily> {
  const found: Record<Family, Map<string, Frontend>> = { 4: new Map(), 6: new Map() };
  let count = 0;
  for (const ports of services) {
    if (++count % BATCH === 0) yield;
    for (const port of ports) {
      if (port.protocol === "udp" && isWanted(port)) add(found[port.family], port);
    }
  }
  return found;
}

function add(found: Map<string, Frontend>, port: DesiredServicePort): void {
  const endpoints = new Set(
    servingEndpoints(port).map((each) => hostPort(each.address, each.port)),
  );
  for (const { address, port: number } of frontendsOf(port)) {
    const key = frontendKey({ address, protocol: "udp", port: number });
    const known = found.get(key);
    found.set(key, {
      address,
      port: number,
      endpoints: known ? known.endpoints.union(endpoints) : endpoints,
    });
  }
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
