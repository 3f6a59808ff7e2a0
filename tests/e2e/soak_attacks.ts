/**
 * A soak under attack: pods flood the health port with idle connections, HTTP/2 and requests without
 * end, a user floods the metrics port, the page and the daemon's lock, and a tenant makes and removes
 * costly objects, all at once. Meanwhile health probes and another tenant's changes are timed.
 *
 *     deno task soak attacks [SECONDS]
 *
 * @module
 */
import { Background } from "../support/background.ts";
import { runSignpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { COSTLY_KINDS } from "../fuzz/costly.ts";
import { ADDRESSES, service, slice } from "./cluster.ts";
import { formatTimes, giveWay, moveEndpoint, removeOthers, sleep } from "./soak_tenants.ts";
import { HEALTH_PORT, METRICS_PORT, Stage } from "./stage.ts";

const a = ADDRESSES[4];
const CLIENTS = new URL("hostile/http_clients_main.ts", import.meta.url).pathname;
/** Connections that stay idle at the health port, and that ask for the metrics and read nothing. */
const IDLE = 2_000;
const READERS = 100;
/** Connections of each other attack. */
const OTHERS = 500;
/** Of costly objects. */
const SIZE = 4_000;
/** Milliseconds. */
const PROBE = 1_000;
const CHANGE = 250;
const OBJECTS = 2_000;
const PROBE_TIMEOUT = 1_000;
/** From the last attack until the end is looked at. */
const SETTLE = 10_000;

/** Connects to the daemon's lock for ever. */
const LOCK_FLOOD = `for (;;) {
  const connect = () => Deno.connect({ transport: "unix", path: "\\0signpost" });
  await Promise.allSettled(Array.from({ length: 100 }, connect));
  await new Promise((resolve) => setTimeout(resolve, 10));
}`;

/** The results under attack; times in milliseconds. */
export interface AttackReport {
  readonly probes: number;
  readonly failedProbes: number;
  /** From a change of one endpoint until connections reach the new one. */
  readonly changes: readonly number[];
  /** The answer of \`signpost verify\` at the end. */
  readonly verify: { readonly code: number; readonly stdout: string };
  readonly log: string;
}

/** Attacks a daemon for so long. @throws {Error} if it ends */
export async function soakUnderAttack(seconds: number): Promise<AttackReport> {
  await using stage = await Stage.create({ objects: [service(a), slice(a, ["local1"])] });
  await using signpost = await stage.startSynced(stage.socket);
  const inside = (host: string, ...argv: string[]) =>
    new Background(["ip", "netns", "exec", stage.network.namespaceOf(host), ...argv]);
  const deno = [Deno.execPath(), "run", "-qA"];
  const clients = (host: string, count: number, where: string, how: string) =>
    inside(host, ...deno, CLIENTS, `${count}`, where, how);
  await using _idle = clients("pod", IDLE, `${a.node}:${HEALTH_PORT}`, "idle");
  await using _http2 = clients("pod", OTHERS, `${a.node}:${HEALTH_PORT}`, "h2");
  await using _requests = clients("pod", OTHERS, `${a.node}:${HEALTH_PORT}`, "/healthz");
  const metrics = `127.0.0.1:${METRICS_PORT}`;
  await using _readers = clients(NODE, READERS, metrics, "/metrics");
  await using _page = clients(NODE, READERS, metrics, "/page.json");
  await using _lock = inside(NODE, Deno.execPath(), "eval", "--unstable-net", LOCK_FLOOD);
  const until = performance.now() + seconds * 1_000;
  let failedProbes = 0;
  let probes = 0;
  const changes: number[] = [];
  await Promise.all([
    every(PROBE, until, async () => {
      probes++;
      const answer = stage.get("/healthz", HEALTH_PORT).then(({ status }) => status === 200);
      const isAnswered = await Promise.race([answer.catch(() => false), sleep(PROBE_TIMEOUT)]);
      if (isAnswered !== true) failedProbes++;
    }),
    every(OBJECTS, until, (round) => replaceCostly(stage, round)),
    every(CHANGE, until, async (round) => void changes.push(await moveEndpoint(stage, round))),
  ]);
  await removeOthers(stage);
  await sleep(SETTLE);
  const verify = await runSignpost(stage.network, ["verify", ...stage.args, ...stage.socket]);
  return { probes, failedProbes, changes, verify, log: signpost.log };
}

/** Makes objects of one costly kind in the place of the last. */
async function replaceCostly(stage: Stage, round: number): Promise<void> {
  await removeOthers(stage);
  const kinds = Object.values(COSTLY_KINDS);
  for (const object of kinds[round % kinds.length]?.(SIZE) ?? []) {
    stage.api.store.put(object);
    await giveWay();
  }
}

async function every(
  pause: number,
  until: number,
  body: (round: number) => Promise<void> | void,
): Promise<void> {
  for (let round = 0; performance.now() < until; round++) {
    await body(round);
    await sleep(pause);
  }
}

/** The report, for people. */
export function formatAttackReport(
  { probes, failedProbes, changes, verify, log }: AttackReport,
): string {
  const count = (pattern: RegExp) => log.match(pattern)?.length ?? 0;
  return [
    `health probes: ${failedProbes} of ${probes} failed`,
    formatTimes(changes),
    `starts ${count(/ INFO started /g)}, failed syncs ${count(/ sync failed: /g)}`,
    `verify: exit code ${verify.code}, ${verify.stdout.trim().split("\n").at(-1)}`,
  ].map((line) => `${line}\n`).join("");
}
