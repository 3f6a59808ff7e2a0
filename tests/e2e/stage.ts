/** The daemon's end-to-end tests: a network, an API server that the node reaches, and signpost. */
import { assertEquals } from "@std/assert";
import { FAMILIES } from "../../lib/model/values/address.ts";
import { ApiServer, type ApiServerOptions } from "../support/api_server.ts";
import type { ApiObject } from "../support/api_store.ts";
import { makeCertificates } from "../support/certificates.ts";
import { CommandError, type CommandOptions, type CommandResult } from "../support/command.ts";
import { Forwarder } from "../support/forward.ts";
import { httpGet, type HttpResponse } from "../support/http.ts";
import type { Network } from "../support/network.ts";
import { listTable } from "../support/nft_table.ts";
import { runSignpost, Signpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { createCluster } from "./case.ts";
import {
  ADDRESSES,
  type Addresses,
  clusterObjects,
  configuration,
  ENDPOINT_HOSTS,
  type Manifest,
  service,
  slice,
} from "./cluster.ts";
import { assertFlows, type Flow } from "./flow.ts";

/** The objects and settings at the start. */
export interface StageOptions {
  /** Besides the Node and the ServiceCIDR. */
  readonly objects?: readonly Manifest[];
  /** Fields that the KubeProxyConfiguration has besides the usual. */
  readonly config?: Manifest;
  readonly api?: Partial<ApiServerOptions>;
}

/** Changes are gathered for a moment only, so that tests need not wait. */
const PERIODS = { minSyncPeriod: "50ms", syncPeriod: "30s" };

/** Everything of a test but the daemon; goes when disposed. */
export class Stage implements AsyncDisposable {
  readonly network: Network;
  readonly api: ApiServer;
  /** The test's own folder, with `config.yaml` and `kubeconfig`. */
  readonly folder: string;
  readonly #resources: AsyncDisposableStack;

  private constructor(
    parts: Pick<Stage, "network" | "api" | "folder">,
    resources: AsyncDisposableStack,
  ) {
    this.network = parts.network;
    this.api = parts.api;
    this.folder = parts.folder;
    this.#resources = resources;
  }

  /** Makes the network and starts the API server. */
  static async create(options: StageOptions = {}): Promise<Stage> {
    await using resources = new AsyncDisposableStack();
    const folder = await Deno.makeTempDir({ prefix: "signpost-e2e-" });
    resources.defer(() => Deno.remove(folder, { recursive: true }));
    const network = resources.use(await createCluster());
    const api = new ApiServer({ certificates: await makeCertificates(folder), ...options.api });
    for (const object of [...clusterObjects(ADDRESSES[4]), ...options.objects ?? []]) {
      api.store.put(object as unknown as ApiObject);
    }
    await api.start();
    resources.defer(() => api.stop());
    const { port = 0 } = api.options;
    resources.use(new Forwarder(network, { host: NODE, port }));
    const stage = new Stage({ network, api, folder }, resources.move());
    await Deno.writeTextFile(`${folder}/kubeconfig`, api.kubeconfig());
    await stage.configure(options.config);
    return stage;
  }

  /** Writes the configuration file. */
  async configure(config: Manifest = {}): Promise<void> {
    const all = configuration(ADDRESSES[4], { nftables: PERIODS, iptables: PERIODS, ...config });
    await Deno.writeTextFile(`${this.folder}/config.yaml`, JSON.stringify(all));
  }

  /** Has the kubeconfig name the API server by another address or name. */
  async nameServer(host: string, port = this.api.options.port): Promise<void> {
    const kubeconfig = JSON.parse(this.api.kubeconfig());
    Object.assign(kubeconfig.clusters[0].cluster, {
      "server": `https://${host}:${port}`,
      "tls-server-name": "localhost",
    });
    await Deno.writeTextFile(`${this.folder}/kubeconfig`, JSON.stringify(kubeconfig));
  }

  /** The flags of every run: where configuration and objects come from, no state file, and no socket. */
  get args(): string[] {
    const { folder } = this;
    return [
      ...["--config", `${folder}/config.yaml`, "--kubeconfig", `${folder}/kubeconfig`],
      ...["--state-file", "", "--socket", "", "-v", "2"],
    ];
  }

  /** Returns the flag for the stage's own socket. It wins over that of `args`. */
  get socket(): string[] {
    return ["--socket", this.folder.replace(/^.*signpost-/, "/run/signpost/") + ".sock"];
  }

  /** Starts the daemon. */
  start(
    args: readonly string[] = [],
    options: Omit<CommandOptions, "stdin"> & { readonly command?: readonly string[] } = {},
  ): Signpost {
    return Signpost.start(this.network, [...this.args, ...args], options);
  }

  /** Starts the daemon, and waits until its rules are in the kernel and are watched over. */
  async startSynced(args: readonly string[] = []): Promise<Signpost> {
    await using resources = new AsyncDisposableStack();
    const signpost = resources.use(this.start(args));
    await signpost.until("the first sync", () => syncs(signpost, "full") > 0);
    if (/ started .*mode=nftables/.test(signpost.log)) {
      await signpost.until("a watch over the rules", () => isMonitoring(signpost.pid));
    }
    resources.move();
    return signpost;
  }

  /** Runs a command of signpost with the daemon's flags, and its socket. */
  run(...words: readonly string[]): Promise<CommandResult> {
    return this.ask(...words, ...this.args);
  }

  /** Runs a command of signpost that is given nothing but the daemon's socket. */
  ask(...words: readonly string[]): Promise<CommandResult> {
    return runSignpost(this.network, [...words, ...this.socket]);
  }

  /** Puts objects into the API server. */
  apply(...objects: readonly Manifest[]): void {
    for (const object of objects) this.api.store.put(object as unknown as ApiObject);
  }

  /** Removes an object from the API server. */
  remove(kind: string, key: string): void {
    assertEquals(this.api.store.delete(kind, key), true, `${kind} ${key} is not there`);
  }

  /** Waits until all flows are as expected. */
  async flowsBecome(signpost: Signpost, flows: readonly Flow[]): Promise<void> {
    await signpost.until("traffic flows as it should", async () => {
      await assertFlows(this.network, flows, { patience: 1_000 });
      return true;
    });
  }

  /** Asks one of the daemon's HTTP servers, in the node. */
  get(path: string, port: number, address = "127.0.0.1"): Promise<HttpResponse> {
    const source = address.includes(":") ? "::1" : "127.0.0.1";
    return httpGet(this.network, { from: NODE, source, address, port, path });
  }

  /** A metric's value, by its name and labels as it is printed; 0 where it is not. */
  async metric(name: string): Promise<number> {
    const { body } = await this.get("/metrics", METRICS_PORT);
    const line = body.split("\n").find((each) => each.startsWith(`${name} `));
    return Number(line?.slice(name.length + 1) ?? 0);
  }

  /** signpost's table in the node; rejects where there is none. */
  table(): Promise<readonly string[]> {
    return listTable(["ip", "netns", "exec", this.network.namespaceOf(NODE)]);
  }

  /** The table that `signpost --once` makes of what the API server has now. */
  async expectedTable(): Promise<readonly string[]> {
    const args = [...this.args, "--once"];
    const result = await runSignpost(this.network, args);
    if (result.code !== 0) throw new CommandError(["signpost", ...args], result);
    return await listTable(["unshare", "--net"], result.stdout);
  }

  /** Waits until the kernel holds what `signpost --once` prints now. */
  async tableBecomesExpected(signpost: Signpost): Promise<void> {
    const expected = await this.expectedTable();
    await signpost.until("the table as --once prints it", async () => {
      assertEquals(await this.table(), expected);
      return true;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

/** The ports of the daemon's HTTP servers. */
export const HEALTH_PORT = 10256;
export const METRICS_PORT = 10249;

/** Objects of both families. */
export function both(build: (a: Addresses) => readonly Manifest[]): Manifest[] {
  return FAMILIES.flatMap((family) => build(ADDRESSES[family]));
}

/** Flows of both families. */
export function bothFlows(build: (a: Addresses) => readonly Flow[]): Flow[] {
  return FAMILIES.flatMap((family) => build(ADDRESSES[family]));
}

/** The Services `shop/web4` and `web6` with an endpoint on each host, and what pods reach there. */
export const WEBS: readonly Manifest[] = both((a) => [
  service(a, { name: `web${a.family}` }),
  slice(a, ENDPOINT_HOSTS, { service: `web${a.family}` }),
]);
export const WEB_FLOWS: readonly Flow[] = bothFlows((a) => [
  { from: "pod", to: a.clusterIP, reaches: ENDPOINT_HOSTS },
]);

/** A state file where signpost may write; only a daemon with these flags looks there. */
export class StateFile implements AsyncDisposable {
  private constructor(private readonly folder: string) {}

  static async create(): Promise<StateFile> {
    await Deno.mkdir("/var/lib/signpost", { recursive: true });
    return new StateFile(await Deno.makeTempDir({ dir: "/var/lib/signpost", prefix: "e2e-" }));
  }

  get path(): string {
    return `${this.folder}/state.json.gz`;
  }

  get args(): string[] {
    return ["--state-file", this.path];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.folder, { recursive: true });
  }
}

/** How often the log says that the kernel has taken a full or a partial script. */
export function syncs(signpost: Signpost, kind: "full" | "partial"): number {
  return signpost.log.match(new RegExp(` synced kind=${kind} `, "g"))?.length ?? 0;
}

/** The bit of netlink's nftables group, NFNLGRP_NFTABLES. */
const NFTABLES_GROUP = 1 << 6;
const NETLINK_NETFILTER = "12";

/** Returns true if a program in the network namespace of a process has subscribed to changes of nftables. */
export async function isMonitoring(pid: number): Promise<boolean> {
  const lines = (await Deno.readTextFile(`/proc/${pid}/net/netlink`)).split("\n");
  return lines.some((line) => {
    const [, protocol, , groups = ""] = line.trim().split(/\s+/);
    return protocol === NETLINK_NETFILTER && (parseInt(groups, 16) & NFTABLES_GROUP) !== 0;
  });
}
