/**
 * Socket addresses as the kernel lays them out: `sockaddr_in` of ip(7), `sockaddr_in6` of ipv6(7).
 */
import ipaddr from "ipaddr.js";

/** An IP address and a port. */
export interface SocketAddress {
  readonly address: string;
  readonly port: number;
}

const AF_INET = 2;
const AF_INET6 = 10;

/** The bytes of a `sockaddr_in` or `sockaddr_in6`. */
export function encodeSocketAddress(value: SocketAddress): Uint8Array<ArrayBuffer> {
  const address = ipaddr.parse(value.address).toByteArray();
  const isIpv4 = address.length === 4;
  const bytes = new Uint8Array(isIpv4 ? 16 : 28);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, isIpv4 ? AF_INET : AF_INET6, true);
  view.setUint16(2, value.port);
  bytes.set(address, isIpv4 ? 4 : 8);
  return bytes;
}

/** The address in the bytes that accept(2) and its like filled; `:0` where they filled none. */
export function decodeSocketAddress(bytes: Uint8Array<ArrayBuffer>): SocketAddress {
  const view = new DataView(bytes.buffer);
  const port = view.getUint16(2);
  switch (view.getUint16(0, true)) {
    case AF_INET:
      return { address: formatAddress(bytes.subarray(4, 8)), port };
    case AF_INET6:
      return { address: formatAddress(bytes.subarray(8, 24)), port };
    default:
      return { address: "", port: 0 };
  }
}

function formatAddress(bytes: Uint8Array): string {
  const address = ipaddr.fromByteArray([...bytes]);
  return address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString();
}
