/** A node on which one proxy takes over from another. */
import type { Variant } from "../../lib/backend/iptables/kernel/programs.ts";
import { FAMILIES } from "../../lib/model/values/address.ts";
import { installKubeProxy, type KubeProxyMode } from "./kube_proxy.ts";
import type { Network } from "../support/network.ts";
import { Signpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { FileStage } from "./case.ts";
import { ADDRESSES, type Manifest, service, slice } from "./cluster.ts";

/** The hosts that serve it. */
export const ENDPOINTS = ["local1", "remote1"] as const;

/** The Service `shop/web` of both families, with a load balancer. */
export function switchObjects(): Manifest[] {
  const [four, six] = [ADDRESSES[4], ADDRESSES[6]];
  return [
    service(four, {
      spec: {
        type: "LoadBalancer",
        clusterIPs: [four.clusterIP, six.clusterIP],
        ipFamilies: ["IPv4", "IPv6"],
      },
      ingress: [{ ip: four.loadBalancer }, { ip: six.loadBalancer }],
    }),
    ...FAMILIES.map((family) => slice(ADDRESSES[family], ENDPOINTS, { name: `web-${family}` })),
  ];
}

/** A node with the Service's endpoints around it, and configuration files for signpost. */
export class HandOverStage implements AsyncDisposable {
  private constructor(private readonly stage: FileStage) {}

  /** @param config fields of the KubeProxyConfiguration besides the usual; no mode is set */
  static async create(config: Manifest = {}): Promise<HandOverStage> {
    const input = { a: ADDRESSES[4], objects: switchObjects(), config: { mode: "", ...config } };
    return new HandOverStage(await FileStage.create(input));
  }

  get network(): Network {
    return this.stage.network;
  }

  /** The flags of every start. */
  get args(): string[] {
    return [...this.stage.args, "-v", "2"];
  }

  /** Starts the daemon. */
  start(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Signpost {
    return Signpost.start(this.network, [...this.args, ...args], { env });
  }

  /** Starts the daemon in a mode and waits until its rules are in the kernel. */
  async startSynced(
    mode: "nftables" | "iptables",
    args: readonly string[] = [],
  ): Promise<Signpost> {
    await using resources = new AsyncDisposableStack();
    const signpost = resources.use(this.start(["--proxy-mode", mode, ...args]));
    await signpost.waitForLog(/ synced kind=full/);
    resources.move();
    return signpost;
  }

  /** Names a backend of iptables as kubelet does. */
  async hint(backend: string): Promise<void> {
    const program = `iptables${backend}`;
    await this.network.run(NODE, [program, "-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
  }

  /** Writes kube-proxy's rules. */
  async installKubeProxy(mode: KubeProxyMode, backend?: Variant): Promise<void> {
    await installKubeProxy(this.network, { mode, ...(backend !== undefined && { backend }) });
  }

  /** Everything that nftables and iptables say that the node's kernel holds, without counters. */
  async rules(): Promise<string> {
    const programs = [["nft", "-s", "list", "ruleset"], ...SAVE_PROGRAMS.map((name) => [name])];
    const texts = await Promise.all(programs.map((argv) => this.network.run(NODE, argv)));
    return texts.join("").replace(/^#.*\n/gm, "").replace(/\[\d+:\d+\]/g, "[0:0]");
  }

  /** Holds a lock of iptables-legacy that only processes with its `env` know of, until disposed. */
  async lockIptables(): Promise<AsyncDisposable & { readonly env: Record<string, string> }> {
    const path = await Deno.makeTempFile({ prefix: "signpost-e2e-lock-" });
    const file = await Deno.open(path, { write: true });
    await file.lock(true);
    return {
      env: { XTABLES_LOCKFILE: path },
      [Symbol.asyncDispose]: async () => {
        file.close();
        await Deno.remove(path);
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stage[Symbol.asyncDispose]();
  }
}

/** One for each backend and family. */
export const SAVE_PROGRAMS = ["iptables", "ip6tables"].flatMap((name) =>
  ["nft", "legacy"].map((backend) => `${name}-${backend}-save`)
);
