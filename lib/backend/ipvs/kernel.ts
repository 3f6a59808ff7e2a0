/**
 * Reads and removes the kernel state of kube-proxy's ipvs mode, except rules. It reads `/proc/net/ip_vs` and
 * `ip_vs_conn` with `cat`, because Deno may not (Linux, `net/netfilter/ipvs/ip_vs_ctl.c` and `ip_vs_conn.c`).
 */
import { messageOf } from "../../model/values/errors.ts";
import {
  cidrContains,
  familyOf,
  integerToAddress,
  isLinkLocal,
  parseAddress,
} from "../../model/values/address.ts";
import { frontendKey, hostPort } from "../../model/cluster/names.ts";
import { runIfInstalled } from "../../model/kernel/dataplane.ts";
import type { ProcessResult, ProcessRunner } from "../../model/ports/ports.ts";
import { oneLine } from "../../model/values/text.ts";
import type { Protocol } from "../../model/cluster/objects.ts";

/** The interface with all virtual IPs. */
export const IPVS_INTERFACE = "kube-ipvs0";

export interface IpvsState {
  /** The addresses that only `kube-ipvs0` has, canonical. An address of another interface also belongs to the node. */
  readonly vips: readonly string[];
  /** kube-proxy's virtual servers outside excluded ranges. */
  readonly servers: readonly VirtualServer[];
}

/** Matches kube-proxy's sets (`pkg/proxy/ipvs/ipset.go`), with names cut to the kernel's 31 letters. */
export const OWN_SET =
  /^KUBE-(?:6-)?(?:LOOP-BACK|CLUSTER-IP|EXTERNAL-IP(?:-LOCAL)?|LOAD-BALANCER(?:-FW|-LOCAL|-SOURCE-IP|-SOURCE-CIDR?)?|NODE-PORT-(?:LOCAL-)?(?:TCP|UDP|SCTP-HASH?)|HEALTH-CHECK-NODE-PORT|IPVS-IPS)$/;

/** The limit of deleted conntrack entries of open connections. */
const MOST_ENTRIES = 100;

export class IpvsKernel {
  /** @param excluded canonical CIDRs whose virtual servers are not kube-proxy's (`ipvs.excludeCIDRs`) */
  constructor(
    private readonly runner: ProcessRunner,
    private readonly excluded: readonly string[] = [],
  ) {}

  /** Reads the state; `undefined` without `kube-ipvs0`. @throws {Error} if it cannot be read */
  async look(): Promise<IpvsState | undefined> {
    const vips = await this.vips();
    return vips && { vips, servers: await this.#servers() };
  }

  /** Reads the addresses that only `kube-ipvs0` has; `undefined` without it. @throws {Error} if `ip` fails */
  async vips(): Promise<readonly string[] | undefined> {
    const command = ["ip", "addr", "show"] as const;
    const listed = await runIfInstalled(this.runner, command);
    if (listed === undefined && await this.#hasInterface()) throw new Error(NO_IP);
    if (listed === undefined) return undefined;
    if (listed.code !== 0) throw new Error(failure(command, listed));
    const addresses = parseInterfaces(listed.stdout);
    const bound = addresses.get(IPVS_INTERFACE);
    addresses.delete(IPVS_INTERFACE);
    const others = new Set([...addresses.values()].flat());
    return bound?.filter((address) => !others.has(address));
  }

  /** Returns true if `ipvsadm` is installed, which alone can remove virtual servers. */
  async canRemoveServers(): Promise<boolean> {
    return await runIfInstalled(this.runner, ["ipvsadm", "--version"]) !== undefined;
  }

  /**
   * Removes the virtual servers, the interface, and then conntrack entries of open connections. Such an entry would
   * send the next packet to a removed address.
   * @throws {Error} before a removal if connections cannot be read, or at the first part that cannot be removed
   */
  async remove({ servers }: IpvsState): Promise<void> {
    const own = new Set(servers.map(frontendKey));
    const connections = parseConnections(await this.#read("/proc/net/ip_vs_conn"))
      .filter((connection) => own.has(frontendKey(connection)));
    await this.#removeServers(servers);
    await this.#run(["ip", "link", "delete", IPVS_INTERFACE]);
    await this.#forget(connections);
  }

  /** Removes kube-proxy's sets, which rules must no longer use. @returns a line for each set that stayed */
  async removeSets(): Promise<string[]> {
    const problems: string[] = [];
    for (const name of await this.sets()) {
      await this.#run(["ipset", "destroy", name]).catch((error) => problems.push(messageOf(error)));
    }
    return problems;
  }

  /** Returns the names of kube-proxy's sets; an empty list if `ipset` is not installed. */
  async sets(): Promise<readonly string[]> {
    const listed = await runIfInstalled(this.runner, ["ipset", "list", "-n"]);
    return (listed?.stdout ?? "").split("\n").filter((name) => OWN_SET.test(name));
  }

  /** Removes virtual servers until all are gone: the kernel lists only as many as fit into a page. */
  async #removeServers(first: readonly ServerAddress[]): Promise<void> {
    let before = "";
    for (let servers = first; servers.length > 0; servers = await this.#servers()) {
      const lines = servers.map(({ protocol, address, port }) =>
        `-D ${SERVICE[protocol]} ${hostPort(address, port)}\n`
      ).join("");
      if (lines === before) {
        throw new Error(`ipvsadm did not remove ${servers.length} virtual servers`);
      }
      await this.#run(["ipvsadm", "-R"], { stdin: before = lines });
    }
  }

  async #servers(): Promise<readonly VirtualServer[]> {
    const all = parseServers(await this.#read("/proc/net/ip_vs"));
    // All other virtual servers are kube-proxy's, which deletes foreign servers.
    return all.filter(({ address }) => !this.excluded.some((cidr) => cidrContains(cidr, address)));
  }

  /**
   * Deletes conntrack entries. Each deletion walks the whole table, so their number is limited. UDP flows are deleted
   * by virtual server: a flow that signpost has taken over loses a pending answer at most.
   */
  async #forget(connections: readonly IpvsConnection[]): Promise<void> {
    const isUdp = ({ protocol }: IpvsConnection) => protocol === "udp";
    const open = connections.filter((each) => !isUdp(each) && each.isEstablished);
    const deletions = new Set([
      ...connections.filter(isUdp).map(serverArguments),
      ...open.slice(0, MOST_ENTRIES).map(entryArguments),
    ]);
    for (const each of deletions) {
      await runIfInstalled(this.runner, ["conntrack", ...each.split(" ")]);
    }
  }

  /** Returns true if the interface exists, without `ip`. Returns false without `cat`. */
  async #hasInterface(): Promise<boolean> {
    const devices = await runIfInstalled(this.runner, ["cat", "/proc/net/dev"]);
    return devices?.stdout.includes(`${IPVS_INTERFACE}:`) ?? false;
  }

  /** Returns a file; `""` if it does not exist because the module is not loaded. */
  #read(path: string): Promise<string> {
    return this.#run(["cat", path], { none: NO_FILE });
  }

  /** Returns a program's output. @param none matches an error that means `""` @throws {Error} if the program failed */
  async #run(
    argv: readonly [string, ...string[]],
    { stdin, none }: { readonly stdin?: string; readonly none?: RegExp } = {},
  ): Promise<string> {
    const result = await runIfInstalled(this.runner, argv, stdin);
    if (result?.code === 0) return result.stdout;
    if (none?.test(result?.stderr ?? "")) return "";
    throw new Error(failure(argv, result));
  }
}

const NO_IP =
  `${IPVS_INTERFACE} exists, but ip is not installed: install the package iproute2, or run kube-proxy --cleanup`;

const NO_FILE = /No such file/;

/** Describes a failure. @param result `undefined` if the program is not installed */
function failure(argv: readonly string[], result: ProcessResult | undefined): string {
  const why = result === undefined
    ? "it is not installed"
    : oneLine(result.stderr || result.stdout, 200) || `exit ${result.code}`;
  return `${argv.join(" ")}: ${why}`;
}

const SERVICE = { tcp: "-t", udp: "-u", sctp: "--sctp-service" } as const;

function serverArguments({ protocol, address, port }: ServerAddress): string {
  return `-D -f ipv${
    familyOf(address)
  } -p ${protocol} --orig-dst ${address} --orig-port-dst ${port}`;
}

function entryArguments(connection: IpvsConnection): string {
  const { client, clientPort } = connection;
  return `${serverArguments(connection)} --orig-src ${client} --orig-port-src ${clientPort}`;
}

interface ServerAddress {
  readonly protocol: Protocol;
  /** Canonical. */
  readonly address: string;
  readonly port: number;
}

interface VirtualServer extends ServerAddress {
  /** The established connections and UDP flows of all its real servers. */
  open: number;
}

interface IpvsConnection extends ServerAddress {
  readonly client: string;
  readonly clientPort: number;
  readonly isEstablished: boolean;
}

const PROTOCOLS: Readonly<Record<string, Protocol>> = { TCP: "tcp", UDP: "udp", SCTP: "sctp" };
const SERVER = /^(TCP|UDP|SCTP)\s+\[?([0-9A-Fa-f:]+)\]?:([0-9A-Fa-f]{4})\s/;
const REAL_SERVER = /^\s+->\s+\S+\s+\S+\s+-?\d+\s+(\d+)\s+(\d+)/;

/** Parses the virtual servers, without servers of a firewall mark, which do not have an address. */
export function parseServers(text: string): VirtualServer[] {
  const servers: VirtualServer[] = [];
  let current: VirtualServer | undefined;
  for (const line of text.split("\n")) {
    const real = REAL_SERVER.exec(line);
    if (!real) {
      const [, kind = "", at, port] = SERVER.exec(line) ?? [];
      const [protocol, address] = [PROTOCOLS[kind], addressOf(at)];
      current = protocol && address !== undefined
        ? { protocol, address, port: Number(`0x${port}`), open: 0 }
        : undefined;
      if (current) servers.push(current);
    } else if (current) {
      // Inactive connections of other protocols are being opened or closed.
      const [, active, inactive] = real;
      current.open += Number(active) + (current.protocol === "udp" ? Number(inactive) : 0);
    }
  }
  return servers;
}

/** Parses the connections, without templates of persistent servers, which do not have a client port. */
export function parseConnections(text: string): IpvsConnection[] {
  return text.split("\n").flatMap((line) => {
    const [kind = "", from, fromPort, to, toPort, , , state] = line.trim().split(/\s+/);
    const protocol = PROTOCOLS[kind];
    const client = addressOf(from);
    const address = addressOf(to);
    if (!protocol || client === undefined || address === undefined) return [];
    const [clientPort, port] = [Number(`0x${fromPort}`), Number(`0x${toPort}`)];
    if (!(clientPort > 0) || !(port > 0)) return [];
    const isEstablished = state === "ESTABLISHED";
    return [{ protocol, client, clientPort, address, port, isEstablished }];
  });
}

/** Parses the canonical addresses of each interface in `ip addr show`, without link-local addresses. */
export function parseInterfaces(text: string): Map<string, string[]> {
  const interfaces = text.matchAll(/^\d+: ([^:@\s]+)(.*\n(?:\D.*\n)*)/gm);
  return new Map([...interfaces].map(([, name = "", lines = ""]) => {
    const addresses = [...lines.matchAll(/^ +inet6? ([0-9a-f.:]+)/gm)];
    return [
      name,
      addresses.flatMap(([, each]) => parseAddress(each) ?? []).filter((each) =>
        !isLinkLocal(each)
      ),
    ];
  }));
}

function addressOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  return /^[0-9A-Fa-f]{8}$/.test(text)
    ? integerToAddress(4, BigInt(`0x${text}`))
    : text.includes(":")
    ? parseAddress(text)
    : undefined;
}
