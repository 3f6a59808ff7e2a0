/**
 * A kube-proxy to take over from: its rules in the kernel, and a process of its name.
 *
 * `tests/testdata/kube-proxy/` has its rules for the Service of `hand_over_stage.ts`, in their documented shape:
 * KEP-3866 and pkg/proxy/nftables/README.md for nftables, the Service debugging guide for iptables and ipvs. The
 * chains of ipvs mode ask no sets of ipset, and DNAT to the first endpoint stands for ip_vs: kernels may have neither.
 */
import type { Variant } from "../../lib/backend/iptables/kernel/programs.ts";
import { programName } from "../../lib/backend/iptables/script/names.ts";
import { FAMILIES } from "../../lib/model/values/address.ts";
import type { Network } from "../support/network.ts";
import { addAddress, NODE } from "../support/topology.ts";
import { ADDRESSES } from "./cluster.ts";

/** A mode of kube-proxy. */
export type KubeProxyMode = "nftables" | "iptables" | "ipvs";

/** Reads a file of rules. */
function rulesOf(file: string): Promise<string> {
  return Deno.readTextFile(new URL(`../testdata/kube-proxy/${file}`, import.meta.url));
}

/** Writes the rules as a kube-proxy in the node does, with a backend of iptables where it counts. */
export async function installKubeProxy(
  network: Network,
  { mode, backend = "-nft" }: { readonly mode: KubeProxyMode; readonly backend?: Variant },
): Promise<void> {
  if (mode === "nftables") return await network.applyNft(await rulesOf("nftables.nft"));
  for (const family of FAMILIES) {
    const program = programName(family, "-restore", backend);
    const stdin = await rulesOf(`${mode}-ipv${family}.txt`);
    await network.run(NODE, [program, "-w", "5", "--noflush"], { stdin });
  }
  if (mode !== "ipvs") return;
  // The real one is of the type `dummy`, which not every kernel has.
  await network.ip(NODE, [
    "link add kube-ipvs0 type bridge",
    ...FAMILIES.map((family) => addAddress(ADDRESSES[family].clusterIP, "kube-ipvs0")),
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

  /** Starts it in the node; with rules, it writes those of nftables whenever they are gone. */
  static async start(network: Network, { hasRules = false } = {}): Promise<LiveKubeProxy> {
    const folder = await Deno.makeTempDir({ prefix: "signpost-e2e-kube-proxy-" });
    await Deno.copyFile(SHELL, `${folder}/kube-proxy`);
    const rules = hasRules ? await rulesOf("nftables.nft") : "";
    await Deno.writeTextFile(`${folder}/rules.nft`, rules);
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
