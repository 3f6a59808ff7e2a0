/**
 * What kube-proxy's ipvs mode has in the kernel besides rules, and its removal: the interface
 * `kube-ipvs0`, virtual servers, sets of ipset.
 *
 * It is read by `ip` and from `/proc`, which Deno does not read itself. Virtual servers go by
 * `ipvsadm` alone: there is nothing else that the kernel takes such a command from but a socket of its
 * own kind.
 *
 * @module
 */
import { append } from "../../model/values/lists.ts";
import { cidrContains, familyOf } from "../../model/values/address.ts";
import { hostPort } from "../../model/cluster/names.ts";
import {
  type ProcessResult,
  type ProcessRunner,
  ProgramMissingError,
} from "../../model/ports/ports.ts";
import { messageOf } from "../../model/values/errors.ts";
import { oneLine } from "../../model/values/text.ts";
import {
  type IpvsConnection,
  parseConnections,
  parseInterfaces,
  parseServers,
  type ServerAddress,
  type VirtualServer,
} from "./kernel_text.ts";

/** The interface that has all virtual IPs. */
export const IPVS_INTERFACE = "kube-ipvs0";

/** What kube-proxy's ipvs mode has in the kernel. */
export interface IpvsState {
  /** The addresses that only `kube-ipvs0` has, canonical. One of another interface is the node's own, too. */
  readonly vips: readonly string[];
  /** Its virtual servers; those in excluded ranges are left out. */
  readonly servers: readonly VirtualServer[];
  /** Why its virtual servers are not known; `undefined`: they are. */
  readonly unread: string | undefined;
}

/** The names of kube-proxy's sets (`pkg/proxy/ipvs/ipset.go`), which it cuts to the 31 letters that the kernel takes. */
export const OWN_SET =
  /^KUBE-(?:6-)?(?:LOOP-BACK|CLUSTER-IP|EXTERNAL-IP(?:-LOCAL)?|LOAD-BALANCER(?:-FW|-LOCAL|-SOURCE-IP|-SOURCE-CIDR?)?|NODE-PORT-(?:LOCAL-)?(?:TCP|UDP|SCTP-HASH?)|HEALTH-CHECK-NODE-PORT|IPVS-IPS)$/;

/** Entries of conntrack that are deleted at most, one by one; and UDP flows before they go by virtual server. */
const MOST_ENTRIES = { tcp: 100, udp: 500 };

/** Reads and removes it. */
export class IpvsKernel {
  readonly #runner: ProcessRunner;
  readonly #excluded: readonly string[];

  /**
   * @param runner runs `ip`, `cat`, `ipvsadm`, `ipset` and `conntrack`
   * @param excluded canonical CIDRs whose virtual servers are not kube-proxy's (`ipvs.excludeCIDRs`)
   */
  constructor(runner: ProcessRunner, excluded: readonly string[] = []) {
    this.#runner = runner;
    this.#excluded = excluded;
  }

  /**
   * What is there; `undefined`: kube-proxy's ipvs mode was not on this node, or nothing is left.
   *
   * @throws {Error} where `ip` cannot tell, or is not installed and `kube-ipvs0` is there
   */
  async look(): Promise<IpvsState | undefined> {
    const command = ["ip", "-o", "addr", "show", "dev", IPVS_INTERFACE] as const;
    const link = await this.#try(command);
    if (link === undefined) {
      if (await this.#hasInterface()) throw new Error(NO_IP);
      return undefined;
    }
    if (NO_DEVICE.test(link.stderr)) return undefined;
    if (link.code !== 0) throw new Error(failure(command, link));
    const bound = new Set(parseInterfaces(link.stdout).map(({ address }) => address));
    const others = parseInterfaces(await this.#output(["ip", "-o", "addr", "show"]))
      .filter(({ name }) => name !== IPVS_INTERFACE).map(({ address }) => address);
    const vips = [...bound.difference(new Set(others))];
    try {
      return { vips, servers: await this.#servers(), unread: undefined };
    } catch (error) {
      return { vips, servers: [], unread: messageOf(error) };
    }
  }

  /**
   * The connections that it carries.
   *
   * @throws {Error} where they cannot be read
   */
  async connections({ servers }: IpvsState): Promise<readonly IpvsConnection[]> {
    const own = new Set(servers.map(keyOf));
    return parseConnections(await this.#read("/proc/net/ip_vs_conn"))
      .filter((connection) => own.has(keyOf(connection)));
  }

  /** The programs that the removal cannot do without, and that are not installed. */
  async missingPrograms({ servers }: IpvsState): Promise<readonly string[]> {
    if (servers.length === 0) return [];
    return await this.#try(["ipvsadm", "--version"]) === undefined ? ["ipvsadm"] : [];
  }

  /**
   * Removes it: no packet meets a virtual server, then the interface, then what conntrack knows of
   * connections that were open, which would send the next packet to an address that is no more.
   *
   * @returns what could not be removed and why, for each a line
   * @throws {Error} where its connections cannot be read; all of it stays then
   */
  async remove(state: IpvsState): Promise<string[]> {
    if (state.unread !== undefined) return [state.unread];
    const connections = await this.connections(state);
    const problems = [
      ...await this.#removeServers(state.servers),
      ...await this.#run(["ip", "link", "delete", IPVS_INTERFACE]),
    ];
    if (problems.length > 0) return problems;
    await this.#forget(connections);
    return await this.removeSets();
  }

  /**
   * Removes kube-proxy's sets, which no rule may name any more. Where `ipset` is not installed they
   * stay, and do no harm.
   *
   * @returns what could not be removed, for each a line
   */
  async removeSets(): Promise<string[]> {
    const problems: string[] = [];
    for (const name of await this.sets()) {
      append(problems, await this.#run(["ipset", "destroy", name]));
    }
    return problems;
  }

  /** The names of kube-proxy's sets; none where `ipset` is not installed. */
  async sets(): Promise<readonly string[]> {
    const listed = await this.#try(["ipset", "list", "-n"]);
    return (listed?.stdout ?? "").split("\n").filter((name) => OWN_SET.test(name));
  }

  /**
   * Where other network namespaces have virtual servers, too, the kernel leaves out some that do not fit
   * into a page: `ip_vs_info_array` counts those of one namespace, `ip_vs_info_seq_next` those of all.
   */
  async #removeServers(first: readonly ServerAddress[]): Promise<string[]> {
    let before = "";
    for (let servers = first; servers.length > 0; servers = await this.#servers()) {
      const lines = servers.map(({ protocol, address, port }) =>
        `-D ${SERVICE[protocol]} ${hostPort(address, port)}\n`
      ).join("");
      if (lines === before) return [`ipvsadm has left ${servers.length} virtual servers`];
      const problems = await this.#run(["ipvsadm", "-R"], before = lines);
      if (problems.length > 0) return problems;
    }
    return [];
  }

  async #servers(): Promise<readonly VirtualServer[]> {
    const all = parseServers(await this.#read("/proc/net/ip_vs"));
    return all.filter((server) => !this.#isExcluded(server));
  }

  /**
   * Each deletion walks conntrack's table, so that there is a limit. To delete by virtual server takes flows
   * that are ours by now as well, and an answer that is under way to them is lost.
   */
  async #forget(connections: readonly IpvsConnection[]): Promise<void> {
    const isUdp = ({ protocol }: IpvsConnection) => protocol === "udp";
    const flows = await this.#tracked(connections.filter(isUdp));
    const open = connections.filter((each) => !isUdp(each) && each.isEstablished);
    const lines = new Set([
      ...flows.map(flows.length > MOST_ENTRIES.udp ? serverArguments : entryArguments),
      ...open.slice(0, MOST_ENTRIES.tcp).map(entryArguments),
    ]);
    if (lines.size === 0) return;
    const input = [...lines].map((line) => `${line}\n`).join("");
    const loaded = await this.#try(["conntrack", "--load-file", "-"], input);
    if (loaded === undefined || loaded.code === 0) return;
    // Versions before 1.4.7 know no batches.
    for (const line of lines) await this.#try(["conntrack", ...line.split(" ")]);
  }

  /** The UDP flows that conntrack knows: IPVS keeps one for minutes after its last packet. */
  async #tracked(flows: readonly IpvsConnection[]): Promise<readonly IpvsConnection[]> {
    const known = new Set<string>();
    for (const family of new Set(flows.map(({ address }) => familyOf(address)))) {
      const listed = await this.#try(["conntrack", "-L", "-f", `ipv${family}`, "-p", "udp"]);
      if (listed?.code !== 0) return flows;
      for (const [tuple] of listed.stdout.matchAll(/src=\S+ dst=\S+ sport=\d+ dport=\d+/g)) {
        known.add(tuple);
      }
    }
    return flows.filter(({ client, clientPort, address, port }) =>
      known.has(`src=${client} dst=${address} sport=${clientPort} dport=${port}`)
    );
  }

  /**
   * All others are kube-proxy's: it deletes every virtual server that is none of its own. Not all have an
   * address of its interface: node ports, which may be any, and load balancers at an address of the node.
   */
  #isExcluded({ address }: ServerAddress): boolean {
    return this.#excluded.some((cidr) => cidrContains(cidr, address));
  }

  /** Where there is no `ip`. Without `cat` there are two programs too few to tell. */
  async #hasInterface(): Promise<boolean> {
    const devices = await this.#try(["cat", "/proc/net/dev"]);
    return devices?.stdout.includes(`${IPVS_INTERFACE}:`) ?? false;
  }

  /** Empty where there is no such file: the module is not loaded. */
  async #read(path: string): Promise<string> {
    const command = ["cat", path] as const;
    const result = await this.#try(command);
    if (result?.code === 0) return result.stdout;
    if (NO_FILE.test(result?.stderr ?? "")) return "";
    throw new Error(failure(command, result));
  }

  async #output(argv: readonly [string, ...string[]]): Promise<string> {
    const result = await this.#try(argv);
    if (result?.code !== 0) throw new Error(failure(argv, result));
    return result.stdout;
  }

  /** @returns a line where it failed */
  async #run(argv: readonly [string, ...string[]], stdin?: string): Promise<string[]> {
    const result = await this.#try(argv, stdin);
    return result?.code === 0 ? [] : [failure(argv, result)];
  }

  /** `undefined` where the program is not installed. */
  async #try(
    argv: readonly [string, ...string[]],
    stdin?: string,
  ): Promise<ProcessResult | undefined> {
    try {
      return await this.#runner.run(argv, stdin);
    } catch (error) {
      if (error instanceof ProgramMissingError) return undefined;
      throw error;
    }
  }
}

/** How many connections IPVS has yet: those that are established, and UDP flows. */
export function countOpen({ servers }: IpvsState): number {
  return servers.reduce(
    (sum, { protocol, active, inactive }) => sum + active + (protocol === "udp" ? inactive : 0),
    0,
  );
}

/** What `ip` says of iproute2, and of BusyBox. */
const NO_DEVICE = /does not exist|can't find device/;

const NO_IP =
  `${IPVS_INTERFACE} is there, and ip, which reads and removes it, is not installed (package iproute2): install it, or run kube-proxy --cleanup`;

const NO_FILE = /No such file/;

/** @param result `undefined`: the program is not installed */
function failure(argv: readonly string[], result: ProcessResult | undefined): string {
  const why = result === undefined
    ? "it is not installed"
    : oneLine(result.stderr || result.stdout, 200) || `exit ${result.code}`;
  return `${argv.join(" ")}: ${why}`;
}

const SERVICE = { tcp: "-t", udp: "-u", sctp: "--sctp-service" } as const;

function keyOf({ protocol, address, port }: ServerAddress): string {
  return `${protocol} ${hostPort(address, port)}`;
}

function serverArguments({ protocol, address, port }: ServerAddress): string {
  return `-D -f ipv${
    familyOf(address)
  } -p ${protocol} --orig-dst ${address} --orig-port-dst ${port}`;
}

function entryArguments(connection: IpvsConnection): string {
  const { client, clientPort } = connection;
  return `${serverArguments(connection)} --orig-src ${client} --orig-port-src ${clientPort}`;
}
