/**
 * A kube-proxy to take over from: its rules in the kernel, written after its documented shape
 * (KEP-3866 and pkg/proxy/nftables/README.md for nftables, the Service debugging guide for iptables
 * and ipvs), and a process of its name.
 */
import type { Variant } from "../../lib/backend/iptables/kernel/programs.ts";
import { programName } from "../../lib/backend/iptables/script/names.ts";
import type { Family } from "../../lib/model/values/address.ts";
import { kubeProxyIptables } from "./kube_proxy_iptables.ts";
import { kubeProxyIpvs } from "./kube_proxy_ipvs.ts";
import { kubeProxyNftables } from "./kube_proxy_nftables.ts";
import type { Network } from "./network.ts";
import { addAddress, NODE } from "./topology.ts";

/** One port of a Service of type ClusterIP, in one family. */
export interface ClusterIPPort {
  /** `namespace/name:port`. */
  readonly name: string;
  readonly protocol: "tcp" | "udp";
  readonly clusterIP: string;
  readonly port: number;
  readonly endpoints: readonly { readonly address: string; readonly port: number }[];
}

/** One port of a Service in one family, external traffic policy Cluster. */
export interface ProxiedPort extends ClusterIPPort {
  readonly loadBalancerIP: string;
  readonly nodePort: number;
}

/** The pod ranges of a family. */
export interface PodNetwork {
  readonly family: Family;
  readonly clusterCIDR: string;
}

/** The facts of one family that kube-proxy knows. */
export interface ProxiedFamily extends PodNetwork {
  readonly nodeIP: string;
  readonly ports: readonly ProxiedPort[];
}

/** A mode of kube-proxy. */
export type KubeProxyMode = "nftables" | "iptables" | "ipvs";

/** Writes the rules as a kube-proxy in the node does, with a backend of iptables where it counts. */
export async function installKubeProxy(
  network: Network,
  options: {
    readonly mode: KubeProxyMode;
    readonly backend?: Variant;
    readonly families: readonly ProxiedFamily[];
  },
): Promise<void> {
  const { mode, backend = "-nft", families } = options;
  if (mode === "nftables") return await network.applyNft(kubeProxyNftables(families));
  for (const state of families) {
    const stdin = mode === "iptables" ? kubeProxyIptables(state) : kubeProxyIpvs(state);
    const program = programName(state.family, "-restore", backend);
    await network.run(NODE, [program, "-w", "5", "--noflush"], { stdin });
  }
  if (mode === "ipvs") await addIpvsInterface(network, families);
}

/** The real one is of the type `dummy`, which not every kernel has. */
async function addIpvsInterface(
  network: Network,
  families: readonly ProxiedFamily[],
): Promise<void> {
  const addresses = families.flatMap(({ ports }) => ports.map(({ clusterIP }) => clusterIP));
  await network.ip(NODE, [
    "link add kube-ipvs0 type bridge",
    ...[...new Set(addresses)].map((address) => addAddress(address, "kube-ipvs0")),
  ]);
}

/** A live kube-proxy: a process of this name, which may hold on to its rules in nftables. */
export class LiveKubeProxy implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #folder: string;
  #stopped: Promise<void> | undefined;

  private constructor(child: Deno.ChildProcess, folder: string) {
    this.#child = child;
    this.#folder = folder;
  }

  /** Starts it in the node; with `families`, it writes their nftables rules whenever they are gone. */
  static async start(
    network: Network,
    families: readonly ProxiedFamily[] = [],
  ): Promise<LiveKubeProxy> {
    const folder = await Deno.makeTempDir({ prefix: "signpost-e2e-kube-proxy-" });
    await Deno.copyFile(SHELL, `${folder}/kube-proxy`);
    await Deno.writeTextFile(`${folder}/rules.nft`, kubeProxyNftables(families));
    const child = new Deno.Command("ip", {
      args: ["netns", "exec", network.namespaceOf(NODE), `${folder}/kube-proxy`, "-c", LOOP],
      cwd: folder,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    return new LiveKubeProxy(child, folder);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Ends it; its rules stay. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #stop(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
    await Deno.remove(this.#folder, { recursive: true });
  }
}

const SHELL = "/bin/sh";

const LOOP = `while :; do
  nft list table ip kube-proxy >/dev/null 2>&1 || nft -f rules.nft
  sleep 0.1
done`;
