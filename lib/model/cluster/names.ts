/** Builds and splits all keys of objects, service ports and frontends. */
import { type Family, familyOf, integerToAddress, ipv4Number } from "../values/address.ts";
import { type Protocol, PROTOCOLS, type ServicePort } from "./objects.ts";

const PORTS = 0x10000;

const DNS_NAME = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Returns true if a text is a DNS subdomain (RFC 1123). Names of objects and nodes are. */
export function isDnsName(text: string): boolean {
  return DNS_NAME.test(text);
}

/** Returns `namespace/name`, or `name` for objects without a namespace. */
export function objectKey(object: { readonly namespace?: string; readonly name: string }): string {
  return object.namespace === undefined ? object.name : `${object.namespace}/${object.name}`;
}

/** The Service of the API servers, which write its endpoints themselves. */
export const API_SERVICE = "default/kubernetes";

/** The name of an object that has a namespace. */
export interface ObjectName {
  readonly namespace: string;
  readonly name: string;
}

/** Splits the key of an object that has a namespace. */
export function splitKey(key: string): ObjectName {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** Returns `namespace/name:port`, or `namespace/name` for a port without a name, as in kube-proxy. */
export function servicePortName(service: string, port: Pick<ServicePort, "name">): string {
  return port.name === "" ? service : `${service}:${port.name}`;
}

/** Returns the `namespace/name` of a service port's name. */
export function serviceOf(portName: string): string {
  return portName.split(":", 1)[0] ?? portName;
}

/** Returns `address . protocol . port`, the key of a virtual IP in nftables. */
export function vipKey(address: string, protocol: Protocol, port: number): string {
  return `${address} . ${protocol} . ${port}`;
}

/** A compact `vipKey`. V8 interns strings that are map keys, and walks all of them in each garbage collection. */
export type VipId = number | string;

export function vipId(address: string, protocol: Protocol, port: number): VipId {
  if (familyOf(address) === 6) return vipKey(address, protocol, port);
  return (ipv4Number(address) * PORTS + port) * PROTOCOLS.length + PROTOCOLS.indexOf(protocol);
}

export function vipKeyOf(id: VipId): string {
  if (typeof id === "string") return id;
  const protocol = PROTOCOLS[id % PROTOCOLS.length] ?? "tcp";
  const place = Math.floor(id / PROTOCOLS.length);
  const address = integerToAddress(4, BigInt(Math.floor(place / PORTS)));
  return vipKey(address, protocol, place % PORTS);
}

/** Prints a claim for people: `192.0.2.30:80/tcp`, `IPv4 node port 30080/tcp`. Any other text stays. */
export function claimText(claim: string): string {
  const parts = /^(?:(\S+) \. |(.* )?)(tcp|udp|sctp) \. (\d+)$/.exec(claim);
  if (!parts) return claim;
  const [, address, words = "", protocol, port] = parts;
  return `${address === undefined ? words + port : hostPort(address, Number(port))}/${protocol}`;
}

/** Returns `protocol . port`, the key of a node port in nftables. */
export function nodePortKey(protocol: Protocol, port: number): string {
  return `${protocol} . ${port}`;
}

/** Returns the key of a virtual IP, or of a node port without an address. */
export function frontendKey(
  { address, protocol, port }: {
    readonly address: string | undefined;
    readonly protocol: Protocol;
    readonly port: number;
  },
): string {
  return address === undefined ? nodePortKey(protocol, port) : vipKey(address, protocol, port);
}

/** Returns a frontend's key with its family, since both families may have the same node port. */
export function keyInFamily(family: Family, key: string): string {
  return `IPv${family} ${key}`;
}

/** Joins host and port as URLs and Go's `JoinHostPort` do: `10.0.0.1:80`, `[fd00::1]:80`. */
export function hostPort(address: string, port: number): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** Splits a text that `hostPort` returned. */
export function splitHostPort(text: string): { readonly hostname: string; readonly port: number } {
  const colon = text.lastIndexOf(":");
  return { hostname: unbracketed(text.slice(0, colon)), port: Number(text.slice(colon + 1)) };
}

/** Returns the port of a URL, which leaves out its scheme's usual port. */
export function portOf({ port, protocol }: URL): number {
  return port === "" ? (protocol === "http:" ? 80 : 443) : Number(port);
}

/** Removes the brackets of an IPv6 host in a URL. */
export function unbracketed(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}
