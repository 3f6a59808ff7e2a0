/** Desired states for the tests of conntrack. */
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
  Destination,
  StateChange,
} from "../../lib/model/kernel/desired.ts";
import { hostPort } from "../../lib/model/cluster/names.ts";
import { servicePort as buildPort } from "../support/cluster.ts";

const FAMILY = {
  localDetector: undefined,
  nodePortAddresses: { type: "all" },
  serviceCIDRs: [],
  guardedCIDRs: [],
  guardedServers: [],
} as const;

/** A node that takes node ports on all of its addresses. */
export const NODE: DesiredNode = {
  ipFamilies: [4, 6],
  families: { 4: FAMILY, 6: FAMILY },
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  localhostNodePorts: false,
  tcpBeLiberal: false,
  countsConnections: false,
};

/** A destination from `address:port`. */
export function destination(text: string): Destination {
  const colon = text.lastIndexOf(":");
  const address = text.slice(0, colon).replace(/[[\]]/g, "");
  return { address, port: Number(text.slice(colon + 1)), local: true, hairpin: true };
}

/** A UDP service port on 10.96.0.10:53 with the given endpoints, `address:port`, but for the given fields. */
export function servicePort(
  endpoints: readonly string[],
  fields: Partial<DesiredServicePort> = {},
): DesiredServicePort {
  return buildPort({
    name: "kube-system/dns:dns",
    protocol: "udp",
    port: 53,
    clusterEndpoints: endpoints.map(destination),
    hasEndpoints: endpoints.length > 0,
    ...fields,
  });
}

/** A state of these service ports, each in a Service of its own. */
export function stateOf(
  ports: readonly DesiredServicePort[],
  node: DesiredNode = NODE,
): DesiredState {
  const services = Map.groupBy(ports, serviceOf);
  return { node, services };
}

/** The step between two states, as `Desired.update` gives it: every Service that is not the same. */
export function changeOf(before: DesiredState, after: DesiredState): StateChange {
  const keys = new Set([...before.services.keys(), ...after.services.keys()]);
  return {
    node: before.node === after.node ? undefined : { before: before.node, after: after.node },
    services: new Map(
      [...keys].map((key) => [key, {
        before: before.services.get(key) ?? [],
        after: after.services.get(key) ?? [],
      }]),
    ),
  };
}

/** All endpoints of a service port, as `address:port`. */
export function endpointsOf(port: DesiredServicePort): string[] {
  return [...port.clusterEndpoints, ...port.localEndpoints, ...port.otherServingEndpoints ?? []]
    .map((each) => hostPort(each.address, each.port));
}

function serviceOf({ name }: DesiredServicePort): string {
  return name.replace(/:.*/, "");
}
