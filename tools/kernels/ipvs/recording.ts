/**
 * The state that kube-proxy's ipvs mode makes in a kernel that has ip_vs: `kube-ipvs0` with all
 * virtual IPs, virtual servers, sets of ipset, chains of iptables, kernel settings. It is read out of
 * a kernel, and put into another one.
 *
 * @module
 */
import type { Family } from "../../../lib/model/values/address.ts";
import type { Network } from "../../../tests/support/network.ts";
import { run } from "../../../tests/support/command.ts";
import { NODE } from "../../../tests/support/topology.ts";

/** The parts, as lines of the programs that read and write them. */
export interface Recording {
  /** Of `sysctl`: those that kube-proxy changes. */
  readonly settings: readonly string[];
  /** Of `ip`, for `kube-ipvs0`. */
  readonly addresses: readonly string[];
  /** Of `ipvsadm`. */
  readonly servers: readonly string[];
  /** Of `ipset`. */
  readonly sets: readonly string[];
  /** Of iptables, for each family. */
  readonly rules: Readonly<Record<Family, readonly string[]>>;
}

const MODULES = ["dummy", "ip_vs", "ip_vs_rr", "ip_set", "xt_set", "xt_ipvs"];
/** nft waits while the kernel loads these one by one, for longer than it may where emulation is slow. */
const NFT_MODULES = [
  ...["nft_ct", "nft_nat", "nft_masq", "nft_reject_inet", "nft_fib_inet", "nft_numgen"],
  ...["nft_hash", "nft_limit", "nft_log"],
];
const SETTINGS = "net.ipv4.vs net.ipv4.conf.all.arp_ignore net.ipv4.conf.all.arp_announce";

/** Loads what a kernel by itself does not, in the machine. */
export async function loadModules(): Promise<void> {
  await run(["modprobe", "-a", ...MODULES, ...NFT_MODULES]);
}

/** Puts a recording into the node, with the restore programs of a variant of iptables. */
export async function replay(
  network: Network,
  recording: Recording,
  { families, restore }: {
    readonly families: readonly Family[];
    readonly restore: Readonly<Record<Family, string>>;
  },
): Promise<void> {
  const text = (lines: readonly string[]) => lines.map((line) => `${line}\n`).join("");
  await network.run(NODE, ["sysctl", "-qw", ...recording.settings]);
  await network.ip(NODE, ["link add kube-ipvs0 type dummy", ...recording.addresses]);
  await network.run(NODE, ["ipvsadm", "-R"], { stdin: text(recording.servers) });
  await network.run(NODE, ["ipset", "restore"], { stdin: text(recording.sets) });
  for (const family of families) {
    await network.run(NODE, [restore[family], "-w", "5", "--noflush"], {
      stdin: text(recording.rules[family]),
    });
  }
}

/** The node's settings that kube-proxy may change, as `sysctl` prints them. */
export async function readSettings(network: Network): Promise<readonly string[]> {
  const text = await network.run(NODE, ["sysctl", "-e", ...SETTINGS.split(" ")]);
  return text.split("\n").filter((line) => line !== "").map((line) => line.replace(" = ", "="))
    .sort();
}

/** Which iptables kube-proxy finds. */
export type IptablesVariant = "nft" | "legacy";

/** Reads what is in the node. @param options.before its settings before kube-proxy */
export async function record(network: Network, { before, variant }: {
  readonly before: readonly string[];
  readonly variant: IptablesVariant;
}): Promise<Recording> {
  const lines = async (...argv: string[]) => (await network.run(NODE, argv)).trim().split("\n");
  const settings = await readSettings(network);
  const addresses = (await lines("ip", "-o", "addr", "show", "dev", "kube-ipvs0")).flatMap(
    (line) => {
      const address = /inet6? (\S+)/.exec(line)?.[1] ?? "";
      return address.startsWith("fe80:") ? [] : [`addr add ${address} dev kube-ipvs0`];
    },
  );
  const rules = async (program: string) => rulesOf(await lines(`${program}-${variant}-save`));
  return {
    settings: settings.filter((line) => !before.includes(line)),
    addresses: addresses.sort(),
    servers: sortServers(await lines("ipvsadm", "-Sn")),
    // The order of elements, and the seed of their hashes, are another each time.
    sets: (await lines("ipset", "save")).map((line) =>
      line.replace(/ (?:bucketsize|initval) \S+/g, "")
    )
      .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1)),
    rules: { 4: await rules("iptables"), 6: await rules("ip6tables") },
  };
}

/** Chains and rules of proxies, as a restore program takes them beside others'; of comments, those of jumps. */
function rulesOf(saved: readonly string[]): string[] {
  const tables = saved.join("\n").split(/^(?=\*)/m).filter((table) => /^:KUBE-/m.test(table));
  return tables.flatMap((table) =>
    table.split("\n").flatMap((line) =>
      /^:KUBE-|^\*|^COMMIT|^-A .*KUBE-/.test(line)
        ? [
          line.replace(/ \[\d+:\d+\]/, " [0:0]").replace(
            /^(-A KUBE-.*?) -m comment --comment "[^"]*"/,
            "$1",
          ),
        ]
        : []
    )
  );
}

/** All virtual servers in an order of their own, each with its real servers. */
function sortServers(lines: readonly string[]): string[] {
  const key = (line: string) => line.split(" ").slice(1, 3).join(" ");
  return lines.toSorted((a, b) =>
    compare(key(a), key(b)) || compare(a.slice(0, 2), b.slice(0, 2)) || compare(a, b)
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function rank(line: string): number {
  return line.startsWith("create ") ? 0 : 1;
}
