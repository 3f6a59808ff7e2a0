/**
 * One run: a service proxy and a neighbour on one node, stage by stage.
 *
 * @module
 */
import { ApiServer } from "../../tests/support/api_server.ts";
import { makeCertificates } from "../../tests/support/certificates.ts";
import { run } from "../../tests/support/command.ts";
import { eventually } from "../../tests/support/eventually.ts";
import { Forwarder } from "../../tests/support/forward.ts";
import { Network } from "../../tests/support/network.ts";
import { NODE } from "../../tests/support/topology.ts";
import { V8_FLAGS } from "../compile/arguments.ts";
import { API, CLUSTER_CIDR, type Flow, FLOWS, OBJECTS } from "./cluster.ts";
import { serveAll, TOPOLOGY, tryFlows } from "./cluster.ts";
import { placeOf, SystemdNode } from "./node.ts";
import type { Neighbour } from "./programs.ts";

/** The modes of both proxies. */
export const MODES = ["nftables", "iptables"] as const;
export type Mode = typeof MODES[number];

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
  /** The flows that went wrong in a first try, in which `signpost check` reported nothing. */
  readonly first?: readonly string[];
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
  /** Takes the journals of the nodes. */
  readonly journal: string;
  /** Takes each result as soon as it is there. */
  readonly onStage: (stage: Stage) => void;
}

const KUBECONFIG = "/etc/proxy/kubeconfig";
const CONFIG = "/etc/proxy/config.yaml";
/** Milliseconds until rules that another program is still writing have been read. */
const LOOK_DEADLINE = 10_000;
/** Removes the folder of a node, and its cgroups as soon as its processes are gone. */
const REMOVE = `rm -rf --one-file-system "$0"; mount -t cgroup2 cgroup2 /mnt; for i in {1..50}; do
find "/mnt/\${0##*/}" -depth -type d -exec rmdir {} + 2> /dev/null && break; sleep 0.1; done`;

/** Leaves out flows that no Service has. */
export function lossesOf(failures: readonly string[]): string[] {
  return failures.filter((failure) => !failure.includes(": control: "));
}

/**
 * Sends the flows, then asks `signpost check`. If flows die and it reports nothing, both happen once
 * more, at the same time: the daemon may have repaired its rules between the flows and the check.
 *
 * @param check waits for a finding if its argument is true
 */
export async function judge(
  send: () => Promise<string[]>,
  check: (isWaiting: boolean) => Promise<string[]>,
): Promise<Pick<Stage, "failures" | "findings" | "first">> {
  const first = await send();
  const hasLosses = lossesOf(first).length > 0;
  const found = await check(hasLosses);
  if (!hasLosses || found.length > 0) return { failures: first, findings: found };
  const [failures, findings] = await Promise.all([send(), check(true)]);
  return { failures, findings, first };
}

/** Returns the version of a neighbour, and passes the result of each stage to `onStage`. */
export async function runNeighbour(options: RunOptions): Promise<string> {
  let version = "";
  for (const order of ["after", "before"] as const) {
    await using place = await Place.create(options);
    const { node } = place.parts;
    try {
      version = (await node.shell(options.neighbour.version)).trim();
      await place.tryOrder(order);
    } finally {
      const journal = await node.execute(["journalctl", "-o", "short-precise", "--no-pager"]);
      await Deno.writeTextFile(options.journal, journal.stdout, { append: true });
    }
  }
  return version;
}

/** A network with a booted node and an API server. */
class Place implements AsyncDisposable {
  readonly #flows: readonly Flow[];

  private constructor(
    private readonly options: RunOptions,
    readonly parts: {
      readonly network: Network;
      readonly node: SystemdNode;
      readonly resources: AsyncDisposableStack;
    },
  ) {
    this.#flows = FLOWS.filter(({ only }) => only === undefined || only === options.mode);
  }

  static async create(options: RunOptions): Promise<Place> {
    const { checkout, lower, mode, neighbour } = options;
    await using resources = new AsyncDisposableStack();
    const folder = await Deno.makeTempDir({ dir: options.folder });
    resources.defer(() => run(["unshare", "-m", "bash", "-c", REMOVE, folder]).then(() => {}));
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
    const api = new ApiServer({ certificates: await makeCertificates(folder, [API.address]) });
    for (const object of [...OBJECTS, ...neighbour.objects ?? []]) api.store.put(object);
    await api.start();
    resources.defer(() => api.stop());
    const { port = 0 } = api.options;
    resources.use(new Forwarder(network, { ...API, port }));
    const kubeconfig = api.kubeconfig().replace("//127.0.0.1", `//${API.address}`);
    await node.shell(`mkdir -p /etc/proxy
cat > ${KUBECONFIG} <<'END'\n${kubeconfig}\nEND
cat > ${CONFIG} <<'END'\n${configurationOf(mode)}END`);
    return new Place(options, { network, node, resources: resources.move() });
  }

  /** Tries all stages. @param order of the neighbour's start and the proxy's */
  async tryOrder(order: "after" | "before"): Promise<void> {
    const { prepare, stages = {}, stop } = this.options.neighbour;
    if (prepare !== undefined) await this.parts.node.shell(prepare);
    if (order === "before") await this.#startNeighbour();
    await this.#startProxy();
    if (order === "after") {
      await this.#judge("alone");
      await this.#startNeighbour();
    }
    await this.#judge(`${order}: started`);
    for (const [name, script] of Object.entries(stages)) {
      await this.parts.node.shell(script);
      await this.#judge(`${order}: ${name}`);
    }
    await this.parts.node.shell(stop);
    await this.#judge(`${order}: stopped`);
  }

  /** Starts the proxy, and waits for its rules. */
  async #startProxy(): Promise<void> {
    const { checkout, peer } = this.options;
    const flags = ["-qP", `--v8-flags=${V8_FLAGS}`, "main.ts"];
    const program = peer === undefined
      ? [Deno.execPath(), "run", ...flags, "--state-file="]
      : [placeOf(peer), "--v=2"];
    const { code, stderr } = await this.parts.node.execute([
      ...["systemd-run", "-q", "--unit=proxy", `--property=WorkingDirectory=${checkout}`],
      ...["--property=RuntimeDirectory=signpost", "--property=StateDirectory=signpost"],
      ...["--setenv=PATH=/usr/sbin:/usr/bin:/sbin:/bin", "--setenv=DENO_NO_UPDATE_CHECK=1"],
      `--setenv=DENO_DIR=${this.parts.node.cache}`,
      ...[...program, `--config=${CONFIG}`],
    ]);
    if (code !== 0) throw new Error(`systemd-run: ${stderr}`);
    try {
      await eventually("the proxy is ready", async () => {
        const path = peer === undefined ? "readyz" : "healthz";
        const probe = ["curl", "-s", "-m1", "-f", `http://127.0.0.1:10256/${path}`];
        return (await this.parts.node.execute(probe)).code === 0;
      }, { deadline: 60_000 });
    } catch (cause) {
      const log = await this.parts.node.shell("journalctl -u proxy -o cat -n 20");
      throw new Error(`the proxy is not ready; its log: ${log}`, { cause });
    }
  }

  /** Starts the neighbour. */
  async #startNeighbour(): Promise<void> {
    const { sysctls = [], start } = this.options.neighbour;
    if (sysctls.length > 0) await this.parts.network.run(NODE, ["sysctl", "-qw", ...sysctls]);
    await this.parts.node.shell(start);
  }

  /** Passes the result of a stage on. */
  async #judge(name: string): Promise<void> {
    const { peer, onStage } = this.options;
    const total = this.#flows.length;
    const send = () => tryFlows(this.parts.network, this.#flows);
    const judged = peer === undefined
      ? await judge(send, (isWaiting) => this.#findings(isWaiting))
      : { failures: await send() };
    onStage({ name, passed: total - judged.failures.length, total, ...judged });
  }

  /** Returns the warnings and errors of `signpost check`. */
  async #findings(isWaiting: boolean): Promise<string[]> {
    const end = performance.now() + (isWaiting ? LOOK_DEADLINE : 0);
    for (;;) {
      const { checkout } = this.options;
      const { stdout } = await this.parts.node.execute([
        ...["env", "-C", checkout, Deno.execPath(), "run", "-qP", "main.ts", "check"],
        `--config=${CONFIG}`,
      ]);
      const lines = stdout.split("\n").filter((line) => /^\s*(?:error|warning)\b/.test(line));
      if (lines.length > 0 || performance.now() >= end) return lines.map((line) => line.trim());
      await new Promise((resolve) => setTimeout(resolve, 3_000));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.parts.resources.disposeAsync();
  }
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
