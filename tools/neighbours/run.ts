/** One run: a service proxy and a neighbour on one node, stage by stage. @module */
import { ApiServer } from "../../tests/support/api_server.ts";
import { makeCertificates } from "../../tests/support/certificates.ts";
import { run } from "../../tests/support/command.ts";
import { Forwarder } from "../../tests/support/forward.ts";
import { Network } from "../../tests/support/network.ts";
import { NODE } from "../../tests/support/topology.ts";
import { V8_FLAGS } from "../compile/arguments.ts";
import { API, FLOWS, OBJECTS, TARGET_PORT, TOPOLOGY, tryFlows } from "./cluster.ts";
import { CHECKOUT, SystemdNode } from "./node.ts";
import type { Neighbour } from "./programs.ts";
import { SCRATCH } from "./roots.ts";

/** The modes of both proxies. */
export const MODES = ["nftables", "iptables"] as const;
export type Mode = typeof MODES[number];

/** The result of one stage. */
export interface Stage {
  /** `after: started`: the neighbour started after the proxy; `after: started, again`: a second try. */
  readonly name: string;
  /** The number of flows. */
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
  readonly peer: string | undefined;
  /** In the form of overlay's `lowerdir`. */
  readonly lower: string;
  /** Paths of the neighbour's programs that no package has. */
  readonly programs: readonly string[];
}

/** A run with a network and a booted node. */
interface Place extends RunOptions {
  readonly network: Network;
  readonly node: SystemdNode;
}

const CONFIG = "/etc/proxy/config.yaml";
/** Milliseconds until rules that another program is still writing have been read. */
const LOOK_DEADLINE = 10_000;
/** Removes the folder of a node, and its cgroups as soon as its processes are gone. */
const REMOVE = `rm -rf --one-file-system "$0"; mount -t cgroup2 cgroup2 /mnt; for i in {1..50}; do
find "/mnt/\${0##*/}" -depth -type d -exec rmdir {} + 2> /dev/null && break; sleep 0.1; done`;

/** The end of the name of a stage's second try. */
export const AGAIN = ", again";

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
): Promise<Pick<Stage, "failures" | "findings">[]> {
  const failures = await send();
  const hasLosses = lossesOf(failures).length > 0;
  const first = { failures, findings: await check(hasLosses) };
  if (!hasLosses || first.findings.length > 0) return [first];
  const [again, findings] = await Promise.all([send(), check(true)]);
  return [first, { failures: again, findings }];
}

/**
 * Runs a proxy and a neighbour on a node for each order of their starts.
 *
 * @param journal the file that takes the nodes' journals
 */
export async function* runStages(options: RunOptions, journal: string): AsyncGenerator<Stage> {
  for (const order of ["after", "before"] as const) {
    await using resources = new AsyncDisposableStack();
    const place = await makePlace(options, resources);
    try {
      yield* tryOrder(place, order);
    } finally {
      const lines = await place.node.shell("journalctl -o short-precise --no-pager").catch(String);
      await Deno.writeTextFile(journal, lines, { append: true });
    }
  }
}

/** Makes a network, a node and an API server. */
async function makePlace(options: RunOptions, resources: AsyncDisposableStack): Promise<Place> {
  const { lower, mode, neighbour, programs } = options;
  await Deno.mkdir(SCRATCH, { recursive: true });
  const folder = await Deno.makeTempDir({ dir: SCRATCH });
  resources.defer(async () => {
    await run(["unshare", "-m", "bash", "-c", REMOVE, folder]);
  });
  const network = resources.use(await Network.create(TOPOLOGY));
  for (const host of [NODE, ...Object.keys(TOPOLOGY.hosts)]) {
    for (const protocol of ["tcp", "udp"] as const) {
      network.serve(host, { protocol, port: TARGET_PORT });
    }
  }
  const namespace = network.namespaceOf(NODE);
  const node = resources.use(await SystemdNode.boot({ namespace, folder, lower }));
  for (const program of programs) await node.install(program);
  const api = new ApiServer({ certificates: await makeCertificates(folder, [API.address]) });
  for (const object of [...OBJECTS, ...neighbour.objects ?? []]) api.store.put(object);
  await api.start();
  resources.defer(() => api.stop());
  const { port = 0 } = api.options;
  resources.use(new Forwarder(network, { ...API, port }));
  await node.shell(`mkdir -p /etc/proxy
cat > /etc/proxy/kubeconfig <<'END'
${api.kubeconfig().replace("//127.0.0.1", `//${API.address}`)}
END
cat > ${CONFIG} <<'END'
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ${mode}
clusterCIDR: 10.244.0.0/16,fd44::/48
clientConnection: {kubeconfig: /etc/proxy/kubeconfig}
hostnameOverride: node-1
conntrack: {maxPerCore: 0, min: 0}
END`);
  return { ...options, network, node };
}

/** Tries all stages. @param order of the neighbour's start and the proxy's */
async function* tryOrder(place: Place, order: "after" | "before"): AsyncGenerator<Stage> {
  const { node, neighbour: { prepare, start, stages = {}, stop } } = place;
  if (prepare !== undefined) await node.shell(prepare);
  if (order === "before") await node.shell(start);
  await startProxy(place);
  if (order === "after") {
    yield* judgeStage(place, "alone");
    await node.shell(start);
  }
  yield* judgeStage(place, `${order}: started`);
  for (const [name, script] of Object.entries({ ...stages, stopped: stop })) {
    await node.shell(script);
    yield* judgeStage(place, `${order}: ${name}`);
  }
}

/** Starts the proxy, and waits for its rules. */
async function startProxy({ node, peer }: Place): Promise<void> {
  const [program, path] = peer === undefined
    ? [`${Deno.execPath()} run -qP --v8-flags=${V8_FLAGS} main.ts --state-file=`, "readyz"]
    : [`${await node.install(peer)} --v=2`, "healthz"];
  await node.shell(`systemd-run -q --unit=proxy --working-directory=${CHECKOUT} \\
  --property=RuntimeDirectory=signpost --property=StateDirectory=signpost \\
  --setenv=PATH="$PATH" --setenv=DENO_DIR="$DENO_DIR" --setenv=DENO_NO_UPDATE_CHECK=1 \\
  ${program} --config=${CONFIG}
timeout 60 bash -c 'until curl -s -m1 -f http://127.0.0.1:10256/${path}; do sleep 0.1; done' ||
  { journalctl -u proxy -o cat -n 20; echo the proxy is not ready; exit 1; }`);
}

async function* judgeStage(place: Place, name: string): AsyncGenerator<Stage> {
  const { network, mode, peer } = place;
  const flows = FLOWS.filter(({ only }) => only === undefined || only === mode);
  const send = () => tryFlows(network, flows);
  const judged = peer === undefined
    ? await judge(send, (isWaiting) => findingsOf(place, isWaiting))
    : [{ failures: await send() }];
  for (const [i, each] of judged.entries()) {
    yield { name: i === 0 ? name : name + AGAIN, total: flows.length, ...each };
  }
}

/** Returns the warnings and errors of `signpost check`. */
async function findingsOf({ node }: Place, isWaiting: boolean): Promise<string[]> {
  const end = performance.now() + (isWaiting ? LOOK_DEADLINE : 0);
  for (;;) {
    const check = `${Deno.execPath()} run -qP main.ts check --config=${CONFIG}`;
    const text = await node.shell(`cd ${CHECKOUT}; ${check} || true`);
    const lines = text.split("\n").map((line) => line.trim());
    const found = lines.filter((line) => /^(?:error|warning)\b/.test(line));
    if (found.length > 0 || performance.now() >= end) return found;
    await new Promise((resolve) => setTimeout(resolve, 3_000));
  }
}
