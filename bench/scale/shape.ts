/**
 * Everything that is measured with one shape of cluster.
 *
 * @module
 */
import { printKey, tableSet } from "../../lib/backend/nftables/sets.ts";
import { messageOf } from "../../lib/model/values/errors.ts";
import { clusterIP, SERVICE_PORT } from "../cluster.ts";
import { Commits } from "../commits.ts";
import { Daemon, type DaemonOptions, type LogLine, printOnce } from "../daemon.ts";
import { Churn, measureChanges } from "../parts/changes.ts";
import { PeakWatch } from "../peaks.ts";
import { readCpu, readMemory } from "../processes.ts";
import { Stage } from "../stage.ts";
import { askDaemon } from "../../lib/system/socket.ts";
import { MemoryGroup, unitMemoryMax } from "./cgroup.ts";
import { HealthPoll } from "./health.ts";
import type { Silence } from "./health_process.ts";
import type { DriftTimes, LimitResult, ScaleResult, ScaleStart, Shape } from "./results.ts";

/** How much is measured. */
export interface ShapeOptions {
  readonly shape: Shape;
  /** Lone changes. */
  readonly changes: number;
  /** True if the unit's memory limit is tried. */
  readonly limited: boolean;
  /** Hears of what is done next. */
  readonly progress: (text: string) => void;
}

/** Milliseconds that the daemon rests before its memory is read. */
const REST = 4_000;

/** Lone changes in a second. */
const PACE = 4;

/** Foreign changes. */
const DRIFTS = 3;

/** The folder of the state file, in that of the stage. */
const STATE = "state";

/** Seconds for the first state file: it comes some time after the first sync. */
const STATE_TRIES = 120;

/** Milliseconds after which the kernel does not tell of a change any more. */
const LOST = 2_000;

/** Measures one shape; `noLimit` says why the memory limit was not tried. */
export async function measureShape(
  { shape, changes, limited, progress }: ShapeOptions,
): Promise<{ readonly result: ScaleResult; readonly noLimit: string }> {
  const tell = (what: string) => progress(`${shape.services} x ${shape.endpoints}: ${what}`);
  tell("API server");
  await using stage = await Stage.create(shape);
  tell("nft alone");
  const floor = await measureFloor(stage);
  tell("first sync");
  const { steady, change, drift, first, silences } = await measureLive(stage, { changes, tell });
  tell("restart");
  const { start: restart, silence } = await measureRestart(stage);
  if (limited) tell("memory limit");
  const limit = limited ? await measureLimit(stage, tell) : undefined;
  const isRefused = typeof limit === "string";
  return {
    result: {
      ...shape,
      floor,
      first,
      restart,
      steady,
      change,
      drift,
      silence: { ...silences, restart: silence },
      ...(limit !== undefined && !isRefused && { limit }),
    },
    noLimit: isRefused ? limit : "",
  };
}

/** Bytes of a daemon that has one Service, after what each shape goes through: its code takes memory too. */
export async function measureBase(
  { changes, progress }: Pick<ShapeOptions, "changes" | "progress">,
): Promise<number> {
  await using stage = await Stage.create({ services: 1, endpoints: 1 });
  const tell = (what: string) => progress(`one Service: ${what}`);
  return (await measureLive(stage, { changes, tell })).steady.own;
}

/** As it is where nothing is configured. */
function daemonOptions(stage: Stage): DaemonOptions {
  const { namespace, api: { kubeconfig } } = stage;
  return { namespace, kubeconfig, minSyncPeriod: "adaptive" };
}

/** Starts the daemon of a new node, or again with the state file that the last one left, as under systemd. */
async function startDaemon(
  stage: Stage,
  kind: "first" | "restart",
  cgroup?: string,
): Promise<Daemon> {
  const state = `${stage.folder}/${STATE}`;
  if (kind === "first") {
    await Deno.remove(state, { recursive: true }).catch(() => {});
    await Deno.mkdir(state);
  }
  return Daemon.start({ ...daemonOptions(stage), state, ...(cgroup !== undefined && { cgroup }) });
}

/** The script that the daemon would write, given to `nft` alone. */
async function measureFloor(stage: Stage): Promise<ScaleResult["floor"]> {
  const path = `${stage.folder}/script.nft`;
  const text = await printOnce(daemonOptions(stage));
  await Deno.writeTextFile(path, text);
  const start = performance.now();
  const child = stage.inside(() =>
    new Deno.Command("nft", { args: ["-f", path], stdin: "null" }).spawn()
  );
  await using watch = new PeakWatch(child.pid);
  const { success } = await child.status;
  const time = performance.now() - start;
  if (!success) throw new Error(`nft refuses ${path}`);
  await stage.flush();
  return { time, peak: watch.peaks.own, script: text.length };
}

/** Measures the first daemon, which finds an empty kernel. */
async function measureLive(
  stage: Stage,
  { changes, tell }: { readonly changes: number; readonly tell: (what: string) => void },
): Promise<
  & Pick<ScaleResult, "first" | "steady" | "change" | "drift">
  & { readonly silences: Pick<NonNullable<ScaleResult["silence"]>, "first" | "full"> }
> {
  await using daemon = await startDaemon(stage, "first");
  const { start: first, silence } = await measureStart(stage, daemon);
  tell("state file");
  // Its first writing belongs to the start; the next one comes a minute later.
  await stateWritten(stage);
  tell("changes");
  const churn = new Churn(stage.options);
  const paced = { daemon, churn, perSecond: PACE };
  await measureChanges(stage, { ...paced, count: Math.ceil(changes / 4) });
  const before = await readCpu(daemon.pid);
  const { count, p50, p99 } = await measureChanges(stage, { ...paced, count: changes });
  const after = await readCpu(daemon.pid);
  const cpu = {
    own: (after.own - before.own) * 1000 / count,
    children: (after.children - before.children) * 1000 / count,
  };
  tell("drift");
  const drift = await measureDrift(stage, daemon);
  tell("memory");
  await sleep(REST);
  const { rss, children } = await readMemory(daemon.pid);
  tell("full sync");
  return {
    first,
    steady: { own: rss, children },
    change: { count, p50, p99, cpu },
    drift,
    silences: { first: silence, full: await measureFullSync(stage, daemon) },
  };
}

/** The longest silence during a full sync that finds the table as it should be. */
async function measureFullSync(stage: Stage, daemon: Daemon): Promise<Silence> {
  await using health = new HealthPoll(stage.namespace, daemon);
  await health.longest();
  const from = daemon.lines.length;
  // The daemon has folders of its own.
  await askDaemon(`/proc/${daemon.pid}/root/run/signpost/signpost.sock`, {
    method: "POST",
    path: "/v1/full-sync",
  });
  await synced(daemon, from);
  await sleep(REST);
  return await health.longest();
}

async function measureRestart(
  stage: Stage,
): Promise<{ readonly start: ScaleStart; readonly silence: Silence }> {
  await using daemon = await startDaemon(stage, "restart");
  return await measureStart(stage, daemon);
}

/** Follows a daemon that has just been started until its first sync. */
async function measureStart(
  stage: Stage,
  daemon: Daemon,
): Promise<{ readonly start: ScaleStart; readonly silence: Silence }> {
  await using health = new HealthPoll(stage.namespace, daemon);
  await using watch = new PeakWatch(daemon.pid);
  const started = await daemon.started();
  const { time, seconds } = await synced(daemon);
  const start = { total: time - started, sync: Number(seconds) * 1000, peaks: watch.peaks };
  await sleep(REST);
  return { start, silence: await health.longest() };
}

/** The first sync, whether it wrote everything or what differed. */
function synced(daemon: Daemon, from = 0): Promise<LogLine> {
  return daemon.line(({ msg }) => msg === "synced", from);
}

/** The restart is to find a state file. */
async function stateWritten(stage: Stage): Promise<void> {
  for (let tries = 0; tries < STATE_TRIES; tries++) {
    const path = `${stage.folder}/${STATE}/state.json.gz`;
    if (await Deno.stat(path).then(() => true, () => false)) return;
    await sleep(1_000);
  }
  throw new Error(`no state file was written in ${STATE_TRIES} s`);
}

/** Another program deletes an element, a few times. */
async function measureDrift(stage: Stage, daemon: Daemon): Promise<DriftTimes[]> {
  const all: DriftTimes[] = [];
  for (let i = 0; i < DRIFTS; i++) {
    await using commits = new Commits(stage);
    // Past what the changes have touched: each of them chose another Service.
    const service = ((stage.options.services >> 1) + i) % stage.options.services;
    const address = clusterIP(service);
    const from = daemon.lines.length;
    const gone = commits.seen(address);
    const key = { type: "frontend", address, protocol: "tcp", port: SERVICE_PORT } as const;
    const { name } = tableSet("services", { frontend: "vip", family: 4 });
    const element = `{ ${printKey(key)} }`;
    await stage.run(["nft", "delete", "element", "inet", "signpost", name, element]);
    // The kernel's word may be lost where it has much to tell.
    const ended = performance.now();
    const at = await Promise.race([gone, sleep(LOST).then(() => ended)]);
    const noticed = await daemon.line(
      ({ msg }) => msg.startsWith("another program has changed our rules"),
      from,
    );
    const repaired = await synced(daemon, daemon.lines.indexOf(noticed));
    // The kernel's own word may come after the daemon's.
    all.push({
      noticed: Math.max(0, noticed.time - at),
      repaired: Math.max(0, repaired.time - at),
    });
    await sleep(500);
  }
  return all;
}

/** A first start, and a restart with the table in place, within what the unit allows. */
async function measureLimit(
  stage: Stage,
  tell: (what: string) => void,
): Promise<LimitResult | string> {
  await stage.flush();
  const limit = await unitMemoryMax();
  const created = await MemoryGroup.create(limit);
  if (typeof created === "string") return created;
  await using group = created;
  let done: LimitResult["done"] = "nothing";
  let firstPeak = 0;
  try {
    {
      await using daemon = await startDaemon(stage, "first", group.processes);
      await synced(daemon);
      await stateWritten(stage);
      firstPeak = await group.peak();
      done = "first sync";
    }
    await using daemon = await startDaemon(stage, "restart", group.processes);
    await synced(daemon);
    done = "restart";
  } catch (error) {
    tell(`memory limit, ${done} done: ${messageOf(error)}`);
  }
  return {
    limit,
    version: group.version,
    peak: await group.peak(),
    killed: await group.killed(),
    firstPeak,
    done,
  };
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
