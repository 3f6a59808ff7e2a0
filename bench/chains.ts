/**
 * A chain-per-service table of the documented shape of kube-proxy's nftables mode (KEP-3866): a
 * verdict map from the VIP to a chain for each service, which picks one chain for each endpoint.
 *
 * But for a name: where kube-proxy writes the choices into the rule, they stand in a map of the same
 * kind here. The kernel makes up a name for a map without one, and looks at all others each time: at
 * 30,000 Services, that takes half an hour.
 *
 * @module
 */
import { nftablesBaseChains } from "../tests/support/kube_proxy_nftables.ts";
import { CLUSTER_CIDR, clusterIP, SERVICE_PORT, serviceName, TARGET_PORT } from "./cluster.ts";

/** Endpoint addresses by service. */
export type Endpoints = (service: number) => readonly string[];

/** The script that loads the table, in pieces: it can be longer than a string may be. */
export function* chainPerService(services: number, endpointsOf: Endpoints): Generator<string> {
  yield `table ip kube-proxy {\n${EMPTY_SETS}${nftablesBaseChains("ip").join("\n")}\n`;
  for (let i = 0; i < services; i++) yield serviceChains(i, endpointsOf(i));
  yield "  set cluster-ips {\n    type ipv4_addr\n    elements = {\n";
  for (let i = 0; i < services; i++) yield `      ${clusterIP(i)},\n`;
  yield `    }\n  }\n  map service-ips {\n    ${VIP_MAP}\n    elements = {\n`;
  for (let i = 0; i < services; i++) {
    const key = `${clusterIP(i)} . tcp . ${SERVICE_PORT}`;
    yield `      ${key} comment "${portName(i)}" : goto ${serviceChain(i)},\n`;
  }
  yield "    }\n  }\n}\n";
}

const VIP_MAP = "type ipv4_addr . inet_proto . inet_service : verdict";
const NODE_PORT_MAP = "type inet_proto . inet_service : verdict";

/** There are no node ports, no firewalls, and no Services without endpoints. */
const EMPTY_SETS = `  set nodeport-ips { type ipv4_addr; }
  map no-endpoint-services { ${VIP_MAP}; }
  map no-endpoint-nodeports { ${NODE_PORT_MAP}; }
  map firewall-ips { ${VIP_MAP}; }
  map service-nodeports { ${NODE_PORT_MAP}; }
`;

function serviceChains(service: number, endpoints: readonly string[]): string {
  const chains = endpoints.map((address) => endpointChain(service, address));
  const bodies = endpoints.map((address, i) =>
    `  chain ${chains[i]} {\n    ip saddr ${address} jump mark-for-masquerade\n` +
    `    meta l4proto tcp dnat to ${address}:${TARGET_PORT}\n  }\n`
  );
  const choices = chains.map((chain, i) => `${i} : goto ${chain}`).join(", ");
  const pick = `numgen random mod ${chains.length}`;
  return bodies.join("") + `  map choices-${hash(service)} {\n    typeof ${pick} : verdict\n` +
    `    size ${chains.length}\n    flags constant\n    elements = { ${choices} }\n  }\n` +
    `  chain ${serviceChain(service)} {\n` +
    `    ip daddr ${clusterIP(service)} tcp dport ${SERVICE_PORT} ip saddr != ${CLUSTER_CIDR} ` +
    `jump mark-for-masquerade\n` +
    `    ${pick} vmap @choices-${hash(service)}\n  }\n`;
}

/** kube-proxy's names end in the service port; a hash in front keeps them apart. */
function serviceChain(service: number): string {
  return `service-${hash(service)}-default/${serviceName(service)}/tcp/http`;
}

function endpointChain(service: number, address: string): string {
  const name = `default/${serviceName(service)}/tcp/http__${address}/${TARGET_PORT}`;
  return `endpoint-${hash(service)}-${name}`;
}

function portName(service: number): string {
  return `default/${serviceName(service)}:http`;
}

/** Eight letters, as long as kube-proxy's. */
function hash(service: number): string {
  return service.toString(26).padStart(8, "0").replace(
    /./g,
    (digit) => String.fromCharCode(65 + parseInt(digit, 26)),
  );
}
