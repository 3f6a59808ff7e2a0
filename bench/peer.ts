/**
 * signpost and a kube-proxy binary, one after the other on the same machine, with the same API server
 * and the same configuration file.
 *
 * @module
 */
import { run } from "../tests/support/command.ts";
import { DAEMON_ENVIRONMENT, signpostCommand } from "../tests/support/signpost.ts";
import { replaceMarked } from "../tools/marked.ts";
import { CLUSTER_CIDR, NODE_NAME } from "./cluster.ts";
import { Commits } from "./commits.ts";
import { Churn, sleepUntil } from "./parts/changes.ts";
import { readCpuSeconds, readMemory } from "./processes.ts";
import { describeMachine, describeSitting, type Machine } from "./program.ts";
import { megabytes, milliseconds, progress } from "./report.ts";
import { Stage } from "./stage.ts";
import { quantile } from "./statistics.ts";

/** The programs and settings that are compared. */
const CONTENDERS = [
  "signpost, defaults",
  "signpost",
  "kube-proxy",
  "kube-proxy, iptables",
] as const;

/** Milliseconds that a program rests before its memory is read. V8 collects garbage within 25 s after much work. */
const REST = 30_000;

/** Milliseconds from the first sync to the first change: the start's own work, such as the first state file, is over. */
const SETTLE = 15_000;

/** Milliseconds for the first sync. kube-proxy's iptables mode may need more at 10,000 Services. */
const DEADLINE = 300_000;
const NO_SYNC = `no sync in ${DEADLINE / 1_000} s`;

/** One program at one size. Times are milliseconds, memory is bytes. */
interface Measured {
  readonly contender: typeof CONTENDERS[number];
  readonly services: number;
  /** From the start of the process to the end of its first sync. */
  readonly firstSync: number;
  /** From a change at the API server to the commit in the kernel. */
  readonly p50: number;
  readonly p99: number;
  /** Processor time of a change, with the programs that were run for it. */
  readonly cpu: number;
  /** After the changes: all pages in RAM, and those that are no part of a file. */
  readonly rss: number;
  readonly anonymous: number;
}

/** One sitting. */
export interface PeerResults {
  /** Commit, day and load average. */
  readonly sitting: string;
  readonly machine: Machine;
  /** Version that the kube-proxy binary prints. */
  readonly peer: string;
  readonly changes: number;
  readonly measured: readonly Measured[];
}

interface PeerOptions {
  /** Path of the kube-proxy binary. */
  readonly peer: string;
  /** Numbers of Services. */
  readonly sizes: readonly number[];
  readonly endpoints: number;
  /** Changes of one endpoint, two a second. */
  readonly changes: number;
}

/** Measures all programs at all sizes. */
export async function measurePeers(options: PeerOptions): Promise<PeerResults> {
  const sitting = await describeSitting();
  const version = (await run([options.peer, "--version"])).trim().replace("Kubernetes v", "");
  const measured: Measured[] = [];
  for (const services of options.sizes) {
    for (const contender of CONTENDERS) {
      progress(`${contender}, ${services} Services`);
      await using stage = await Stage.create({ services, endpoints: options.endpoints });
      const one = await measureOne(stage, contender, options);
      if (one !== undefined) measured.push({ contender, services, ...one });
      else progress(`${contender}, ${services} Services: ${NO_SYNC}`);
    }
  }
  const { changes } = options;
  return { sitting, machine: await describeMachine(), peer: version, changes, measured };
}

/** Files that a program writes are private to it. */
const PRIVATE = "mkdir -p /var/lib/signpost /run/signpost && " +
  'mount -t tmpfs tmpfs /var/lib/signpost && mount -t tmpfs tmpfs /run/signpost && exec "$@"';

async function measureOne(
  stage: Stage,
  contender: Measured["contender"],
  { peer, changes }: PeerOptions,
): Promise<Omit<Measured, "contender" | "services"> | undefined> {
  const config = `${stage.folder}/config.yaml`;
  await Deno.writeTextFile(config, configuration(stage.api.kubeconfig, contender));
  const program = contender.startsWith("kube-proxy") ? [peer] : await privateProgram(stage.folder);
  const inside = ["netns", "exec", stage.namespace, "sh", "-c", PRIVATE, "sh"];
  const log = await Deno.open(`${stage.folder}/log`, { create: true, write: true });
  const started = Date.now();
  const child = new Deno.Command("ip", {
    args: [...inside, ...program, "--config", config, "--hostname-override", NODE_NAME],
    env: contender === "kube-proxy" ? {} : DAEMON_ENVIRONMENT,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const logged = child.stderr.pipeTo(log.writable);
  try {
    const synced = await firstSyncTime(stage);
    if (synced === undefined) return undefined;
    const firstSync = synced - started;
    await sleepUntil(performance.now() + SETTLE);
    const before = await readCpuSeconds(child.pid);
    const latencies = await change(stage, changes);
    const cpu = (await readCpuSeconds(child.pid) - before) * 1000 / changes;
    await sleepUntil(performance.now() + REST);
    const { rss, anonymous } = await readMemory(child.pid);
    return {
      firstSync,
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      cpu,
      rss,
      anonymous,
    };
  } finally {
    child.kill("SIGTERM");
    await child.status;
    await logged;
  }
}

/** Returns signpost's command with a copy of its program: a file that the bench runs from, too, is partly in RAM already. */
async function privateProgram(folder: string): Promise<string[]> {
  const [program = "", ...args] = signpostCommand();
  const copy = `${folder}/${program.replace(/^.*\//, "")}`;
  await Deno.copyFile(program, copy);
  return [copy, ...args];
}

/** Both programs read this file. */
function configuration(kubeconfig: string, contender: Measured["contender"]): string {
  const mode = contender === "kube-proxy, iptables" ? "iptables" : "nftables";
  return JSON.stringify({
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode,
    clusterCIDR: CLUSTER_CIDR,
    clientConnection: { kubeconfig },
    conntrack: { maxPerCore: 0 },
    oomScoreAdj: 0,
    ...(contender !== "signpost, defaults" && { [mode]: { minSyncPeriod: "10ms" } }),
  });
}

/** Both programs have this metric, and their health answers do not say when a sync ended. */
const LAST_SYNC =
  /^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{ip_family="IPv4"\})? ([\d.e+]+)$/m;

/** Milliseconds since 1970 at which the first sync ended; `undefined`: it did not end in time. */
async function firstSyncTime(stage: Stage): Promise<number | undefined> {
  const deadline = performance.now() + DEADLINE;
  while (performance.now() < deadline) {
    const metrics = await stage.run(["curl", "-s", "http://127.0.0.1:10249/metrics"])
      .then(({ stdout }) => stdout, () => "");
    const seconds = Number(LAST_SYNC.exec(metrics)?.[1] ?? 0);
    if (seconds > 0) return seconds * 1000;
    await sleepUntil(performance.now() + 50);
  }
  return undefined;
}

/** Milliseconds until each change was committed; the last ones have a minute. */
async function change(stage: Stage, count: number): Promise<number[]> {
  const churn = new Churn(stage.options);
  await using commits = new Commits(stage);
  const begin = performance.now();
  const arrivals: Promise<number>[] = [];
  for (let i = 0; i < count; i++) {
    await sleepUntil(begin + i * 500);
    const { address, slice } = churn.next();
    const start = performance.now();
    arrivals.push(commits.seen(address).then((time) => time - start));
    await stage.api.put(slice);
  }
  const late = AbortSignal.timeout(60_000);
  return await Promise.race([
    Promise.all(arrivals),
    new Promise<never>((_, reject) => {
      late.addEventListener(
        "abort",
        () => reject(new Error(`${commits.pending} of ${count} changes are not in the kernel`)),
      );
    }),
  ]);
}

const TIMES = [
  ["process start to all rules in the kernel", "firstSync", milliseconds],
  ["change of one endpoint, p50", "p50", milliseconds],
  ["change of one endpoint, p99", "p99", milliseconds],
  ["processor time for a change", "cpu", milliseconds],
] as const;

const MEMORY = [
  ["resident memory (RSS)", "rss", megabytes],
  ["anonymous memory, a part of it", "anonymous", megabytes],
] as const;

/** Writes the table of costs into the text of docs/performance.md. Memory is in the other table, in README.md. */
export function renderPeerPage(page: string, results: PeerResults): string {
  const { sitting, machine, changes } = results;
  const where = `${machine.cores} cores (${machine.cpu}), kernel ${machine.kernel}, ${machine.nft}`;
  const costs = renderPeerTable(results, { contenders: ["signpost, defaults"], rows: TIMES });
  const text = `Measured at ${sitting}: ${where}. ${changes} changes, two a second.\n\n${costs}`;
  return replaceMarked(page, { name: "costs", text });
}

/** The programs of the table in README.md, with the names that they have there. */
const COMPARED: ReadonlyMap<Measured["contender"], string> = new Map([
  ["signpost", "signpost"],
  ["kube-proxy", "kube-proxy's nftables mode"],
  ["kube-proxy, iptables", `its iptables mode (-: ${NO_SYNC})`],
]);

/** Writes the table with kube-proxy into the text of a page. */
export function renderComparison(page: string, results: PeerResults): string {
  const measured = new Set(results.measured.map(({ contender }) => contender));
  const contenders = [...COMPARED.keys()].filter((each) => measured.has(each));
  const names = contenders.map((each) => COMPARED.get(each)).join(" / ");
  const table = renderPeerTable(results, { contenders, rows: [...TIMES, ...MEMORY] });
  const text = `kube-proxy ${results.peer}, ${results.sitting}. Each cell: ${names}.\n\n${table}`;
  return replaceMarked(page, { name: "peer", text });
}

/** Returns a table with a column for each size. A cell has a value for each program. */
function renderPeerTable(
  { measured }: PeerResults,
  { contenders, rows }: {
    readonly contenders: readonly Measured["contender"][];
    readonly rows: readonly (typeof TIMES[number] | typeof MEMORY[number])[];
  },
): string {
  const sizes = [...new Set(measured.map(({ services }) => services))];
  const lines = [
    ["Services of 10 endpoints", ...sizes.map((services) => services.toLocaleString("en"))],
    ["---", ...sizes.map(() => "---:")],
    ...rows.map(([label, field, format]) => [
      label,
      ...sizes.map((services) =>
        contenders.map((contender) => {
          const found = measured.find((each) =>
            each.services === services && each.contender === contender
          );
          return found === undefined ? "-" : format(found[field]);
        }).join(" / ")
      ),
    ]),
  ];
  return lines.map((cells) => `| ${cells.join(" | ")} |\n`).join("");
}
