/**
 * The node of the take-over: kube-proxy's state, and signpost beside it.
 *
 * @module
 */
import type { Family } from "../../../lib/model/values/address.ts";
import { createCluster, type InputFiles, writeInput } from "../../../tests/e2e/case.ts";
import { ADDRESSES, configuration } from "../../../tests/e2e/cluster.ts";
import { CommandError, run } from "../../../tests/support/command.ts";
import type { Network } from "../../../tests/support/network.ts";
import { runSignpost, Signpost } from "../../../tests/support/signpost.ts";
import { NODE } from "../../../tests/support/topology.ts";
import type { Backend } from "../steps.ts";
import { liveObjects, objectsBefore } from "./objects.ts";
import { OWN_PORT } from "./probes.ts";
import { RealKubeProxy } from "./real_kube_proxy.ts";
import recording from "./recording.json" with { type: "json" };
import { loadModules, type Recording, replay } from "./recording.ts";

/** The parts to try. */
export interface StageOptions {
  readonly backend: Backend;
  readonly families: readonly Family[];
  /** The program to take over from; `undefined`: what it left is there. */
  readonly kubeProxy?: string | undefined;
}

/** Seconds that open connections have. */
export const GRACE = 60;

type Mode = "nftables" | "iptables";

const SOCKET = "/run/signpost/ipvs.sock";

/** The restore programs by backend. */
export const RESTORE: Readonly<Record<Backend, Readonly<Record<Family, string>>>> = {
  nftables: { 4: "iptables-nft-restore", 6: "ip6tables-nft-restore" },
  iptables: { 4: "iptables-nft-restore", 6: "ip6tables-nft-restore" },
  "iptables-legacy": { 4: "iptables-legacy-restore", 6: "ip6tables-legacy-restore" },
};

/** Prints leftovers of signpost, of which its cleanup may leave none. */
const LEFT_OF_SIGNPOST = `nft list tables | grep signpost
for save in iptables-nft-save ip6tables-nft-save iptables-legacy-save ip6tables-legacy-save; do
  $save 2>/dev/null | grep -E '^:KUBE-(EXTERNAL|SVC|SEP)'
done
true`;

/** Prints leftovers of kube-proxy, of which none may be there at the end. */
const LEFT = `ip -o link show kube-ipvs0 2>/dev/null
grep -E '^(TCP|UDP|SCTP)' /proc/net/ip_vs
ipset list -n | grep ^KUBE
for save in iptables-nft-save ip6tables-nft-save iptables-legacy-save ip6tables-legacy-save; do
  $save 2>/dev/null | grep -E -- '-(IPVS|NODE-PORT|LOAD-BALANCER)'
done
nft list tables | grep ipvs
true`;

/** The network, with what kube-proxy's ipvs mode leaves in the node. */
export class Stage implements AsyncDisposable {
  readonly #options: StageOptions;
  readonly #input: Readonly<Record<Mode, InputFiles>>;
  readonly #kubeProxy: RealKubeProxy | undefined;
  readonly #resources: AsyncDisposableStack;

  private constructor(readonly network: Network, parts: {
    readonly options: StageOptions;
    readonly input: Readonly<Record<Mode, InputFiles>>;
    readonly kubeProxy: RealKubeProxy | undefined;
    readonly resources: AsyncDisposableStack;
  }) {
    this.#options = parts.options;
    this.#kubeProxy = parts.kubeProxy;
    this.#input = parts.input;
    this.#resources = parts.resources;
  }

  /** Makes it, with kube-proxy or what it made. */
  static async create(options: StageOptions): Promise<Stage> {
    const { backend, kubeProxy: program } = options;
    await using resources = new AsyncDisposableStack();
    await loadModules();
    const network = resources.use(await createCluster());
    network.serve(NODE, { protocol: "tcp", port: OWN_PORT, address: "::" });
    if (backend === "iptables-legacy") {
      // kubelet's chain tells which backend a node uses.
      for (const program of ["iptables-legacy", "ip6tables-legacy"]) {
        await network.run(NODE, [program, "-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
      }
    }
    const periods = { minSyncPeriod: "50ms", syncPeriod: "5s" };
    const inputOf = async (mode: Mode) => {
      const named = { mode: mode === "nftables" ? "ipvs" : mode, ipvs: periods, iptables: periods };
      const config = configuration(ADDRESSES[4], named);
      return resources.use(await writeInput({ objects: liveObjects(), config }));
    };
    const input = { nftables: await inputOf("nftables"), iptables: await inputOf("iptables") };
    await run(["mkdir", "-p", "/run/signpost"]);
    const kubeProxy = program === undefined ? undefined : resources.use(
      await RealKubeProxy.create(network, {
        program,
        variant: backend === "iptables-legacy" ? "legacy" : "nft",
        objects: objectsBefore(),
      }),
    );
    const stage = new Stage(network, { options, input, kubeProxy, resources: resources.move() });
    await stage.startKubeProxy();
    return stage;
  }

  /** Starts kube-proxy, or makes what it makes. */
  async startKubeProxy(): Promise<void> {
    const { families, backend } = this.#options;
    if (this.#kubeProxy) return await this.#kubeProxy.start();
    await replay(this.network, recording, { families, restore: RESTORE[backend] });
  }

  /** Returns the objects that kube-proxy has made, if it is a real one. */
  async recording(): Promise<Recording | undefined> {
    return await this.#kubeProxy?.recording();
  }

  /** Returns the errors in a real kube-proxy's log. */
  get kubeProxyErrors(): readonly string[] {
    return this.#kubeProxy?.errors ?? [];
  }

  /** Ends kube-proxy; what it made stays. */
  async stopKubeProxy(): Promise<void> {
    await this.#kubeProxy?.stop("SIGTERM");
  }

  /** Starts the daemon, in the backend's mode or another; it is stopped with the stage. */
  startSignpost(
    mode: Mode = this.#options.backend === "nftables" ? "nftables" : "iptables",
  ): Signpost {
    const { config, manifests } = this.#input[mode];
    return this.#resources.use(Signpost.start(this.network, [
      ...["--config", config, "--manifests", manifests, "--state-file="],
      ...["--socket", SOCKET, "--ipvs-grace-period", `${GRACE}s`, "-v2"],
    ]));
  }

  /** Returns the take-over in `signpost status`; `""`: there is none. */
  async status(): Promise<string> {
    const { stdout } = await runSignpost(this.network, ["status", "--socket", SOCKET]);
    return /^ *take-over +(.*)$/m.exec(stdout)?.[1] ?? "";
  }

  /** Returns leftovers of kube-proxy's ipvs mode; `""`: there are none. */
  async left(): Promise<string> {
    return (await this.network.run(NODE, ["sh", "-c", LEFT])).trim();
  }

  /** Runs `signpost cleanup`. @returns what is left of signpost's */
  async cleanUp(): Promise<string> {
    const result = await runSignpost(this.network, ["cleanup"]);
    if (result.code !== 0) throw new CommandError(["signpost", "cleanup"], result);
    return (await this.network.run(NODE, ["sh", "-c", LEFT_OF_SIGNPOST])).trim();
  }

  /** The connections that IPVS has begun since the module was loaded. */
  async carried(): Promise<number> {
    const stats = await this.network.run(NODE, ["cat", "/proc/net/ip_vs_stats"]);
    return parseInt(/^ *([0-9A-F]+)(?: +[0-9A-F]+){4} *$/m.exec(stats)?.[1] ?? "", 16);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}
