/**
 * A real kube-proxy in ipvs mode, with an API server for it.
 *
 * @module
 */
import { ApiServer } from "../../../tests/support/api_server.ts";
import type { ApiObject } from "../../../tests/support/api_store.ts";
import { type CommandResult, execute } from "../../../tests/support/command.ts";
import { eventually } from "../../../tests/support/eventually.ts";
import { Forwarder } from "../../../tests/support/forward.ts";
import type { Network } from "../../../tests/support/network.ts";
import { NODE } from "../../../tests/support/topology.ts";
import { ADDRESSES, configuration, type Manifest } from "../../../tests/e2e/cluster.ts";
import { type IptablesVariant, readSettings, record, type Recording } from "./recording.ts";

/** Milliseconds. */
const DEADLINE = 600_000;

/** The program, as often as it is started. */
export class RealKubeProxy implements AsyncDisposable {
  readonly #network: Network;
  readonly #command: readonly string[];
  readonly #before: Parameters<typeof record>[1];
  readonly #resources: AsyncDisposableStack;
  #child: Deno.ChildProcess | undefined;
  #log = "";

  private constructor(network: Network, parts: {
    readonly command: readonly string[];
    readonly before: Parameters<typeof record>[1];
    readonly resources: AsyncDisposableStack;
  }) {
    this.#network = network;
    this.#command = parts.command;
    this.#before = parts.before;
    this.#resources = parts.resources;
  }

  /** Starts the API server. @param options.objects what it has */
  static async create(network: Network, options: {
    readonly program: string;
    readonly variant: IptablesVariant;
    readonly objects: readonly Manifest[];
  }): Promise<RealKubeProxy> {
    await using resources = new AsyncDisposableStack();
    const folder = await Deno.makeTempDir({ prefix: "signpost-kube-proxy-" });
    resources.defer(() => Deno.remove(folder, { recursive: true }));
    const api = new ApiServer();
    for (const object of options.objects) api.store.put(object as unknown as ApiObject);
    await api.start();
    resources.defer(() => api.stop());
    resources.use(new Forwarder(network, { host: NODE, port: api.options.port ?? 0 }));
    await Deno.writeTextFile(`${folder}/kubeconfig`, api.kubeconfig());
    const config = configuration(ADDRESSES[4], {
      mode: "ipvs",
      detectLocalMode: "ClusterCIDR",
      clientConnection: {
        kubeconfig: `${folder}/kubeconfig`,
        acceptContentTypes: "application/json",
        contentType: "application/json",
      },
      ipvs: { syncPeriod: "30s", minSyncPeriod: "1s" },
    });
    await Deno.writeTextFile(`${folder}/config.yaml`, JSON.stringify(config));
    for (const family of ["iptables", "ip6tables"]) {
      for (const kind of ["", "-save", "-restore"]) {
        const program = `/usr/sbin/xtables-${options.variant}-multi`;
        await Deno.symlink(program, `${folder}/${family}${kind}`);
      }
    }
    const command = [
      ...["env", `PATH=${folder}:${Deno.env.get("PATH")}`],
      ...[options.program, "--config", `${folder}/config.yaml`, "-v2"],
    ];
    const before = { before: await readSettings(network), variant: options.variant };
    return new RealKubeProxy(network, { command, before, resources: resources.move() });
  }

  /** Returns the errors in its log so far. */
  get errors(): readonly string[] {
    return this.#log.split("\n").filter((line) => /^E\d/.test(line));
  }

  /** Starts it, and waits until it has made everything: the chains come last. */
  async start(): Promise<void> {
    const child = new Deno.Command("ip", {
      args: ["netns", "exec", this.#network.namespaceOf(NODE), ...this.#command],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    this.#child = child;
    void this.#read(child.stderr);
    try {
      await eventually("kube-proxy's rules", () => this.#isSynced(), { deadline: DEADLINE });
    } catch (cause) {
      throw new Error(`kube-proxy did not sync:\n${this.#log}`, { cause });
    }
  }

  /** Records the objects that it has made. */
  recording(): Promise<Recording> {
    return record(this.#network, this.#before);
  }

  /** Runs `kube-proxy --cleanup`, which may fail where it has done all it can. */
  async cleanUp(): Promise<CommandResult> {
    const namespace = this.#network.namespaceOf(NODE);
    return await execute(["ip", "netns", "exec", namespace, ...this.#command, "--cleanup"]);
  }

  /** Ends it; what it made stays. */
  async stop(signal: Deno.Signal): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    child?.kill(signal);
    await child?.status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("SIGKILL");
    await this.#resources.disposeAsync();
  }

  async #isSynced(): Promise<boolean> {
    const rules = await this.#network.run(NODE, [
      "sh",
      "-c",
      "for save in iptables-nft-save ip6tables-nft-save iptables-legacy-save ip6tables-legacy-save; do" +
      " $save -t filter 2>/dev/null; done",
    ]);
    return (rules.match(/-A KUBE-IPVS-FILTER .*-j REJECT/g)?.length ?? 0) === 2;
  }

  async #read(stream: ReadableStream<Uint8Array>): Promise<void> {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) this.#log += text;
  }
}
