/**
 * One run: a service proxy and a neighbour on one node, stage by stage.
 *
 * @module
 */
import { run } from "../../tests/support/command.ts";
import { eventually } from "../../tests/support/eventually.ts";
import { Network } from "../../tests/support/network.ts";
import { NODE } from "../../tests/support/topology.ts";
import { V8_FLAGS } from "../compile/arguments.ts";
import { API, CLUSTER_CIDR, type Flow, FLOWS, OBJECTS } from "./cluster.ts";
import { serveAll, TOPOLOGY, tryFlows } from "./cluster.ts";
import { placeOf, SystemdNode } from "./node.ts";
import type { Neighbour } from "./programs.ts";

/** The modes of both proxies. */
export const MODES = ["nftables", "iptables"] as const;

/** Names a mode. */
export type Mode = typeof MODES[number];

/** The order in which the two start. */
export const ORDERS = ["after", "before"] as const;

/** The result of one stage. */
export interface Stage {
  /** `after: started`: the neighbour started after the proxy. */
  readonly name: string;
  readonly passed: number;
  readonly total: number;
  /** The flows that went wrong, with what they got. */
  readonly failures: readonly string[];
  /** The warnings and errors of `signpost check`; `undefined` beside kube-proxy. */
  readonly findings?: readonly string[];
}

/** The parts of a run. */
export interface RunOptions {
  readonly neighbour: Neighbour;
  readonly mode: Mode;
  /** The path of a kube-proxy in the place of signpost. */
  readonly peer?: string;
  /** In the form of overlay's `lowerdir`. */
  readonly lower: string;
  /** An empty folder. */
  readonly folder: string;
  readonly checkout: string;
  /** Paths of the neighbour's programs that no package has. */
  readonly programs: readonly string[];
  /** Takes each result as soon as it is there. */
  readonly onStage: (stage: Stage) => void;
}

const KUBECONFIG = "/etc/proxy/kubeconfig";
const CONFIG = "/etc/proxy/config.yaml";
const CONTROL_PORT = 6480;
/** Milliseconds until rules that another program is still writing have been read. */
const LOOK_DEADLINE = 10_000;

/** Leaves out flows that no Service has. */
export function lossesOf(failures: readonly string[]): string[] {
  return failures.filter((failure) => !failure.includes(": control: "));
}

/** Returns the version of a neighbour, and passes the result of each stage to `onStage`. */
export async function runNeighbour(options: RunOptions): Promise<string> {
  const { neighbour } = options;
  let version = "";
  for (const order of ORDERS) {
    await using stage = await Place.create(options);
    version = (await stage.node.shell(neighbour.version)).trim();
    if (neighbour.prepare !== undefined) await stage.node.shell(neighbour.prepare);
    if (order === "after") {
      await stage.startProxy();
      await stage.judge("alone");
      await stage.startNeighbour();
    } else {
      await stage.startNeighbour();
      await stage.startProxy();
    }
    await stage.judge(`${order}: started`);
    for (const [name, script] of Object.entries(neighbour.stages ?? {})) {
      await stage.node.shell(script);
      await stage.judge(`${order}: ${name}`);
    }
    await stage.node.shell(neighbour.stop);
    await stage.judge(`${order}: stopped`);
  }
  return version;
}

/** A network with a booted node and an API server. */
class Place implements AsyncDisposable {
  readonly #options: RunOptions;
  readonly #network: Network;
  readonly #resources: AsyncDisposableStack;
  readonly #flows: readonly Flow[];

  private constructor(options: RunOptions, network: Network, parts: {
    readonly node: SystemdNode;
    readonly resources: AsyncDisposableStack;
  }) {
    this.#options = options;
    this.#network = network;
    this.node = parts.node;
    this.#resources = parts.resources;
    this.#flows = FLOWS.filter(({ only }) => only === undefined || only === options.mode);
  }

  readonly node: SystemdNode;

  static async create(options: RunOptions): Promise<Place> {
    const { checkout, lower, mode } = options;
    await using resources = new AsyncDisposableStack();
    const folder = await Deno.makeTempDir({ dir: options.folder });
    resources.defer(() => run(["rm", "-rf", "--one-file-system", folder]).then(() => {}));
    const network = resources.use(await Network.create(TOPOLOGY));
    serveAll(network);
    const deno = Deno.execPath().replace(/\/[^/]*$/, "");
    const cache = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;
    const node = resources.use(
      await SystemdNode.boot({
        namespace: network.namespaceOf(NODE),
        folder,
        lower,
        mounts: [checkout, deno, cache],
        programs: [...options.programs, ...options.peer === undefined ? [] : [options.peer]],
      }),
    );
    const api = await startApiServer(network, { checkout, folder });
    resources.use(api);
    await node.shell(
      `mkdir -p /etc/proxy; cat > ${KUBECONFIG} <<'END'\n${await Deno.readTextFile(
        `${folder}/api/kubeconfig`,
      )}\nEND
cat > ${CONFIG} <<'END'\n${configurationOf(mode)}END`,
    );
    return new Place(options, network, { node, resources: resources.move() });
  }

  /** Starts the proxy, and waits for its rules. */
  async startProxy(): Promise<void> {
    const { checkout, peer } = this.#options;
    const flags = ["-qP", `--v8-flags=${V8_FLAGS}`, "main.ts"];
    const program = peer === undefined
      ? [Deno.execPath(), "run", ...flags, "--state-file="]
      : [placeOf(peer), "--v=2"];
    const { code, stderr } = await this.node.execute([
      ...["systemd-run", "-q", "--unit=proxy", `--property=WorkingDirectory=${checkout}`],
      ...["--property=RuntimeDirectory=signpost", "--property=StateDirectory=signpost"],
      ...["--setenv=PATH=/usr/sbin:/usr/bin:/sbin:/bin", "--setenv=DENO_NO_UPDATE_CHECK=1"],
      `--setenv=DENO_DIR=${this.node.cache}`,
      ...[...program, `--config=${CONFIG}`],
    ]);
    if (code !== 0) throw new Error(`systemd-run: ${stderr}`);
    try {
      await eventually("the proxy is ready", async () => {
        const path = peer === undefined ? "readyz" : "healthz";
        const probe = ["curl", "-s", "-m1", "-f", `http://127.0.0.1:10256/${path}`];
        return (await this.node.execute(probe)).code === 0;
      }, { deadline: 60_000 });
    } catch (cause) {
      const log = await this.node.shell("journalctl -u proxy -o cat -n 20");
      throw new Error(`the proxy is not ready; its log: ${log}`, { cause });
    }
  }

  /** Starts the neighbour. */
  async startNeighbour(): Promise<void> {
    const { sysctls = [], start } = this.#options.neighbour;
    if (sysctls.length > 0) await this.#network.run(NODE, ["sysctl", "-qw", ...sysctls]);
    await this.node.shell(start);
  }

  /** Sends the flows, and asks `signpost check` if some die. */
  async judge(name: string): Promise<void> {
    const { peer, onStage } = this.#options;
    const failures = await tryFlows(this.#network, this.#flows);
    const total = this.#flows.length;
    const findings = peer === undefined
      ? await this.#findings(lossesOf(failures).length > 0)
      : undefined;
    onStage({
      name,
      passed: total - failures.length,
      total,
      failures,
      ...(findings !== undefined && { findings }),
    });
  }

  /** Returns the warnings and errors of `signpost check`. */
  async #findings(isWaitingForOne: boolean): Promise<string[]> {
    const end = performance.now() + (isWaitingForOne ? LOOK_DEADLINE : 0);
    for (;;) {
      const { checkout } = this.#options;
      const { stdout } = await this.node.execute([
        ...["env", "-C", checkout, Deno.execPath(), "run", "-qP", "main.ts", "check"],
        `--config=${CONFIG}`,
      ]);
      const lines = stdout.split("\n").filter((line) => /^\s*(?:error|warning)\b/.test(line));
      if (lines.length > 0 || performance.now() >= end) return lines.map((line) => line.trim());
      await new Promise((resolve) => setTimeout(resolve, 3_000));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

/** Starts the API server on its host, with the cluster's objects. */
async function startApiServer(
  network: Network,
  { checkout, folder }: { readonly checkout: string; readonly folder: string },
): Promise<AsyncDisposable> {
  const namespace = network.namespaceOf(API.host);
  await Deno.mkdir(`${folder}/api`);
  const child = new Deno.Command("ip", {
    args: [
      ...["netns", "exec", namespace, Deno.execPath(), "run", "-Aq"],
      ...["--config", `${checkout}/deno.json`, `${checkout}/tests/support/api_server_main.ts`],
      ...["--dir", `${folder}/api`, "--host", API.address, "--port", `${API.port}`],
      ...["--control-port", `${CONTROL_PORT}`],
    ],
    stdin: "null",
    stdout: "null",
    stderr: "inherit",
  }).spawn();
  const control = await eventually(
    "the API server listens",
    () => Deno.readTextFile(`${folder}/api/control`).catch(() => undefined),
  );
  await network.run(API.host, ["curl", "-sf", "--data-binary", "@-", `${control}/objects`], {
    stdin: JSON.stringify(OBJECTS),
  });
  return {
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await child.status;
    },
  };
}

function configurationOf(mode: Mode): string {
  return `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ${mode}
clusterCIDR: "${CLUSTER_CIDR}"
clientConnection: {kubeconfig: ${KUBECONFIG}}
hostnameOverride: node-1
conntrack: {maxPerCore: 0, min: 0}
`;
}
