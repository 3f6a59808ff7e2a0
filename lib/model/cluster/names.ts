/**
 * The one constructor of each key. Nothing else builds these strings by hand.
 *
 * @module
 */
import { type Family, familyOf } from "../values/address.ts";
import type { Protocol, ServicePort } from "./objects.ts";

const DNS_NAME = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Whether a text is a DNS subdomain (RFC 1123), as the names of objects and nodes are. */
export function isDnsName(text: string): boolean {
  return DNS_NAME.test(text);
}

/** `namespace/name`, or `name` for objects without a namespace. */
export function objectKey(object: { readonly namespace?: string; readonly name: string }): string {
  return object.namespace === undefined ? object.name : `${object.namespace}/${object.name}`;
}

/** The parts of the key of an object that has a namespace. */
export function splitKey(key: string): { readonly namespace: string; readonly name: string } {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** `namespace/name:port`, or `namespace/name` for a port without a name, as kube-proxy writes it. */
export function servicePortName(service: string, port: Pick<ServicePort, "name">): string {
  return port.name === "" ? service : `${service}:${port.name}`;
}

/** `address . protocol . port`: the key by which nftables finds a virtual IP. */
export function vipKey(address: string, protocol: Protocol, port: number): string {
  return `${address} . ${protocol} . ${port}`;
}

/** The family of a `vipKey`. */
export function vipFamily(key: string): Family {
  return familyOf(key);
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
