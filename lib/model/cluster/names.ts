/**
 * The one constructor of each key. Nothing else builds these strings by hand.
 *
 * @module
 */
import { type Family, familyOf, integerToAddress, ipv4Number } from "../values/address.ts";
import { type Protocol, PROTOCOLS, type ServicePort } from "./objects.ts";

const PORTS = 0x10000;

const DNS_NAME = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Whether a text is a DNS subdomain (RFC 1123), as the names of objects and nodes are. */
export function isDnsName(text: string): boolean {
  return DNS_NAME.test(text);
}

/** `namespace/name`, or `name` for objects without a namespace. */
export function objectKey(object: { readonly namespace?: string; readonly name: string }): string {
  return object.namespace === undefined ? object.name : `${object.namespace}/${object.name}`;
}

/** The Service by which pods reach the API servers, which write its endpoints themselves. */
export const API_SERVICE = "default/kubernetes";

/** The parts of the key of an object that has a namespace. */
export function splitKey(key: string): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** `namespace/name:port`, or `namespace/name` for a port without a name, as kube-proxy writes it. */
export function servicePortName(service: string, port: Pick<ServicePort, "name">): string {
  return port.name === "" ? service : `${service}:${port.name}`;
}

/** Returns the `namespace/name` of a service port's name. */
export function serviceOf(portName: string): string {
  return portName.split(":", 1)[0] ?? portName;
}

/** `address . protocol . port`: the key by which nftables finds a virtual IP. */
export function vipKey(address: string, protocol: Protocol, port: number): string {
  return `${address} . ${protocol} . ${port}`;
}

/**
 * Stands for a `vipKey` where there are very many: of IPv4 it is a number. V8 keeps each text that is a key of a map in
 * one table, which it goes through at one go in each collection.
 */
export type VipId = number | string;

/** The one of a virtual IP. */
export function vipId(address: string, protocol: Protocol, port: number): VipId {
  if (familyOf(address) === 6) return vipKey(address, protocol, port);
  return (ipv4Number(address) * PORTS + port) * PROTOCOLS.length + PROTOCOLS.indexOf(protocol);
}

/** The `vipKey` that it stands for; what is no number stands for itself. */
export function vipKeyOf(id: VipId): string {
  if (typeof id === "string") return id;
  const [place, protocol = "tcp"] = [
    Math.floor(id / PROTOCOLS.length),
    PROTOCOLS[id % PROTOCOLS.length],
  ];
  const address = integerToAddress(4, BigInt(Math.floor(place / PORTS)));
  return vipKey(address, protocol, place % PORTS);
}

/** `protocol . port`: the key by which nftables finds a node port. */
export function nodePortKey(protocol: Protocol, port: number): string {
  return `${protocol} . ${port}`;
}

/** The key of a virtual IP; where there is no address, of a node port. */
export function frontendKey(
  { address, protocol, port }: {
    readonly address: string | undefined;
    readonly protocol: Protocol;
    readonly port: number;
  },
): string {
  return address === undefined ? nodePortKey(protocol, port) : vipKey(address, protocol, port);
}

/** A virtual IP's or node port's key with its family: both families may have the same node port. */
export function keyInFamily(family: Family, key: string): string {
  return `IPv${family} ${key}`;
}

/** Host and port as URLs and Go's `JoinHostPort` write them: `10.0.0.1:80`, `[fd00::1]:80`. */
export function hostPort(address: string, port: number): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** What `hostPort` writes, in its parts. */
export function splitHostPort(text: string): { readonly hostname: string; readonly port: number } {
  const colon = text.lastIndexOf(":");
  return { hostname: unbracketed(text.slice(0, colon)), port: Number(text.slice(colon + 1)) };
}

/** A host as URLs have it, without the brackets of IPv6. */
export function unbracketed(host: string): string {
  return host.replace(/^\[(.*)\]$/, "$1");
}
