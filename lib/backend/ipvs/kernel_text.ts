/**
 * Parses the kernel's IPVS files `/proc/net/ip_vs` and `/proc/net/ip_vs_conn` (Linux,
 * `net/netfilter/ipvs/ip_vs_ctl.c` and `ip_vs_conn.c`). Addresses and ports are hexadecimal.
 *
 * @module
 */
import { unbracketed } from "../../model/cluster/names.ts";
import { integerToAddress, parseAddress } from "../../model/values/address.ts";
import type { Protocol } from "../../model/cluster/objects.ts";

/** The API server's default range of node ports. */
export const NODE_PORTS = { first: 30_000, last: 32_767 } as const;

/** An address and a port of one protocol. */
export interface ServerAddress {
  readonly protocol: Protocol;
  /** Canonical. */
  readonly address: string;
  readonly port: number;
}

/** A virtual server. */
export interface VirtualServer extends ServerAddress {
  /** Connections in the state ESTABLISHED, of all its real servers. */
  readonly active: number;
  /** All other connections: UDP flows, and connections that begin or end. */
  readonly inactive: number;
}

/** One connection in IPVS. */
export interface IpvsConnection extends ServerAddress {
  readonly client: string;
  readonly clientPort: number;
  readonly isEstablished: boolean;
}

/** An address of an interface. */
export interface InterfaceAddress {
  readonly name: string;
  readonly address: string;
}

const PROTOCOLS: Readonly<Record<string, Protocol>> = { TCP: "tcp", UDP: "udp", SCTP: "sctp" };
const SERVER = /^(TCP|UDP|SCTP)\s+(\[?[0-9A-Fa-f:]+\]?):([0-9A-Fa-f]{4})\s/;
const REAL_SERVER = /^\s+->\s+\S+\s+\S+\s+-?\d+\s+(\d+)\s+(\d+)/;

/** Parses the virtual servers. Servers of a firewall mark have no address and are left out. */
export function parseServers(text: string): VirtualServer[] {
  const servers: VirtualServer[] = [];
  let current: VirtualServer | undefined;
  for (const line of text.split("\n")) {
    const real = REAL_SERVER.exec(line);
    if (real && current) {
      const [active, inactive] = [Number(real[1]), Number(real[2])];
      current = {
        ...current,
        active: current.active + active,
        inactive: current.inactive + inactive,
      };
      servers[servers.length - 1] = current;
    } else if (!real) {
      current = parseServer(line);
      if (current) servers.push(current);
    }
  }
  return servers;
}

/** Parses the connections. Templates of persistent servers have no client port and are left out. */
export function parseConnections(text: string): IpvsConnection[] {
  return text.split("\n").flatMap((line) => {
    const [kind = "", from, fromPort, to, toPort, , , state] = line.trim().split(/\s+/);
    const protocol = PROTOCOLS[kind];
    const client = addressOf(from);
    const address = addressOf(to);
    if (!protocol || client === undefined || address === undefined) return [];
    const [clientPort, port] = [Number(`0x${fromPort}`), Number(`0x${toPort}`)];
    if (!(clientPort > 0) || !(port > 0)) return [];
    return [{
      protocol,
      client,
      clientPort,
      address,
      port,
      isEstablished: state === "ESTABLISHED",
    }];
  });
}

/** Parses the canonical addresses in `ip -o addr show`, without link-local ones. */
export function parseInterfaces(text: string): InterfaceAddress[] {
  return [...text.matchAll(/^\d+: (\S+) +inet6? ([0-9a-f.:]+)/gm)].flatMap(
    ([, name = "", each]) => {
      const address = parseAddress(each);
      return address === undefined || address.startsWith("fe80:") ? [] : [{ name, address }];
    },
  );
}

function parseServer(line: string): VirtualServer | undefined {
  const match = SERVER.exec(line);
  const protocol = PROTOCOLS[match?.[1] ?? ""];
  const address = addressOf(unbracketed(match?.[2] ?? ""));
  if (!match || !protocol || address === undefined) return undefined;
  return { protocol, address, port: Number(`0x${match[3]}`), active: 0, inactive: 0 };
}

function addressOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  return /^[0-9A-Fa-f]{8}$/.test(text)
    ? integerToAddress(4, BigInt(`0x${text}`))
    : text.includes(":")
    ? parseAddress(text)
    : undefined;
}
