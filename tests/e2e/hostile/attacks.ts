/** Attacks on a daemon, and the probes, changes and memory that are measured meanwhile. */
import { messageOf } from "../../../lib/model/values/errors.ts";
import { quantile } from "../../../bench/statistics.ts";
import { Background } from "../../support/background.ts";
import { httpGet } from "../../support/http.ts";
import type { Signpost } from "../../support/signpost.ts";
import { NODE } from "../../support/topology.ts";
import { ADDRESSES, type Manifest, NODE_PORT, service, slice, TARGET_PORT } from "../cluster.ts";
import { formatTimes, moveEndpoint, sleep } from "../soak_tenants.ts";
import { HEALTH_PORT, type Stage } from "../stage.ts";

const a = ADDRESSES[4];
const CLIENTS = new URL("http_clients_main.ts", import.meta.url).pathname;
/** A node port whose endpoint never ends a connection. */
const HOLDING_NODE_PORT = NODE_PORT + 1;
const HOLDING_PORT = TARGET_PORT + 1;
/** Milliseconds. */
const PROBE = 500;
const PROBE_TIMEOUT = 1_000;
const CHANGE = 200;
const SAMPLE = 200;
/** Milliseconds for the memory to come back, and the part of the memory before that may stay. */
const SETTLE = 60_000;
const STAYS = 0.1;

/** Clients of one kind; see `http_clients_main.ts`. */
export interface Attack {
  /** A host, or `node`. */
  readonly from: string;
  readonly connections: number;
  /** Address and port. */
  readonly to: string;
  readonly how: readonly string[];
}

/** Attacks of one pod on the health port, and of a program of the node on node ports on loopback. */
export const ATTACKS = {
  "HTTP/2, 200 open streams each": { from: "pod", to: `${a.node}:${HEALTH_PORT}`, how: ["h2"] },
  "requests without end": { from: "pod", to: `${a.node}:${HEALTH_PORT}`, how: ["/healthz"] },
  "half-closed, a node port on 127.0.0.1": {
    from: NODE,
    to: `127.0.0.1:${HOLDING_NODE_PORT}`,
    how: ["half"],
  },
  "idle": { from: "pod", to: `${a.node}:${HEALTH_PORT}`, how: ["idle"] },
} as const;

/** Serves node ports on loopback. */
export const ATTACKED_CONFIG = { nodePortAddresses: ["primary", "localhost"] };

/** `shop/web`, whose endpoint moves, and `shop/holding`, whose endpoint never ends a connection. */
export const ATTACKED: readonly Manifest[] = [
  service(a, { spec: { type: "NodePort" } }),
  slice(a, ["local1"]),
  service(a, {
    name: "holding",
    spec: {
      type: "NodePort",
      clusterIP: a.clusterIP2,
      ports: [{ name: "tcp", protocol: "TCP", port: 80, nodePort: HOLDING_NODE_PORT }],
    },
  }),
  slice(a, ["local1"], {
    service: "holding",
    ports: [{ name: "tcp", protocol: "TCP", port: HOLDING_PORT }],
  }),
];

const HOLD = `const held = [];
for await (const conn of Deno.listen({ hostname: "0.0.0.0", port: ${HOLDING_PORT} })) {
  held.push(conn);
}`;

/** The niceness of attackers while probes are timed: pods have processor time of their own, by their cgroups. */
export const ATTACKER = 10;

/** Starts Deno with these arguments in a host, or `node`. */
export function denoIn(
  stage: Stage,
  host: string,
  args: readonly string[],
  niceness = 0,
): Background {
  const nice = ["nice", "-n", `${niceness}`, Deno.execPath(), ...args];
  return new Background(["ip", "netns", "exec", stage.network.namespaceOf(host), ...nice]);
}

/** Connects clients. The first line of the program says that each has been connected once. */
export function startAttack(
  stage: Stage,
  { from, connections, to, how }: Attack,
  niceness = 0,
): Background {
  const args = ["run", "-qA", "--no-config", CLIENTS, `${connections}`, to, ...how];
  return denoIn(stage, from, args, niceness);
}

/** Starts the endpoint of `shop/holding`. */
export function startHolding(stage: Stage): Background {
  return denoIn(stage, "local1", ["eval", HOLD]);
}

/** The results of attacks; times in milliseconds. */
export interface Figures {
  readonly probes: number;
  /** The name of each failed probe, and why it failed. */
  readonly failures: readonly string[];
  readonly slowestProbe: number;
  /** From a change of one endpoint until connections reach the new one. */
  readonly changes: readonly number[];
  /** Resident bytes; `after` is what was left after so many milliseconds, a minute at most. */
  readonly memory: {
    readonly before: number;
    readonly peak: number;
    readonly after: number;
    readonly settled: number;
  };
}

/** The work during attacks. */
export interface Observed {
  readonly signpost: Signpost;
  /** The programs that attack. Each starts when the one before has printed a line. */
  readonly attacks: () => Iterable<Background>;
  readonly seconds: number;
  /** False if the endpoint of `shop/web` does not move. */
  readonly hasChanges?: boolean;
  /** Other work until that time of `performance.now()`. */
  readonly beside?: (until: number) => Promise<void>;
}

/** Attacks a daemon for so long, and measures it until a minute later. */
export async function observe(stage: Stage, observed: Observed): Promise<Figures> {
  const { signpost, attacks, seconds, hasChanges = true, beside } = observed;
  const asked = hasChanges ? [healthOnLoopback, healthFromOutside, nodePortOnLoopback] : [livez];
  // Node ports on loopback open after the first sync.
  for (const probe of asked) {
    await signpost.until(probe.name, async () => typeof await timed(probe, stage) === "number");
  }
  const before = residentMemory(signpost.pid);
  const probes: (number | string)[] = [];
  const changes: number[] = [];
  let peak = before;
  {
    await using clients = new AsyncDisposableStack();
    const until = performance.now() + seconds * 1_000;
    // One after the other: several programs that start at once take the processors of a small machine.
    const attack = async () => {
      for (const each of attacks()) {
        clients.use(each);
        while (each.lines.length === 0 && performance.now() < until) await sleep(SAMPLE);
      }
    };
    await Promise.all([
      attack(),
      ...asked.map((probe) =>
        every(PROBE, until, async () => void probes.push(await timed(probe, stage)))
      ),
      every(SAMPLE, until, () => void (peak = Math.max(peak, residentMemory(signpost.pid)))),
      hasChanges &&
      every(CHANGE, until, async (round) => void changes.push(await moveEndpoint(stage, round))),
      beside?.(until),
    ]);
  }
  const over = performance.now();
  let after = residentMemory(signpost.pid);
  while (after > (1 + STAYS) * before && performance.now() - over < SETTLE) {
    await sleep(SAMPLE);
    after = residentMemory(signpost.pid);
  }
  return {
    probes: probes.length,
    failures: probes.filter((each) => typeof each === "string"),
    slowestProbe: Math.max(0, ...probes.filter((each) => typeof each === "number")),
    changes,
    memory: { before, peak, after, settled: performance.now() - over },
  };
}

/** Formats the figures for people. */
export function formatFigures({ probes, failures, slowestProbe, ...rest }: Figures): string[] {
  return [
    `probes: ${failures.length} of ${probes} failed, the slowest answer ${
      Math.round(slowestProbe)
    } ms`,
    ...failures,
    formatTimes(rest.changes),
    `resident memory: ${formatMemory(rest.memory)}`,
  ];
}

/** Formats the resident memory for people: before, at most, and a minute later at most. */
export function formatMemory({ before, peak, after, settled }: Figures["memory"]): string {
  const [first, most, last] = [before, peak, after].map((bytes) => (bytes / 1e6).toFixed(0));
  return `${first} → ${most} → ${last} MB after ${Math.ceil(settled / 1_000)} s`;
}

/** Formats the median and the 99th percentile. */
export function formatQuantiles(times: readonly number[]): string {
  return [0.5, 0.99].map((part) => quantile(times, part).toFixed(0)).join(" / ") + " ms";
}

/** Returns the resident bytes of a process; 0 if it has ended. */
export function residentMemory(pid: number): number {
  try {
    const text = Deno.readTextFileSync(`/proc/${pid}/status`);
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(text)?.[1] ?? 0) * 1024;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
}

/** Does something again and again until that time of `performance.now()`. */
export async function every(
  pause: number,
  until: number,
  body: (round: number) => Promise<void> | void,
): Promise<void> {
  for (let round = 0; performance.now() < until; round++) {
    await body(round);
    await sleep(pause);
  }
}

type Probe = (stage: Stage) => Promise<{ readonly status: number } | { readonly type: string }>;

/** Returns the milliseconds of a successful probe; else its name, and why it failed. */
async function timed(probe: Probe, stage: Stage): Promise<number | string> {
  const began = performance.now();
  const failed = (why: string) => `${probe.name} ${(began / 1_000).toFixed(1)} s: ${why}`;
  try {
    const late = sleep(PROBE_TIMEOUT).then(() => ({ type: "no answer in time" }));
    const answer = await Promise.race([probe(stage), late]);
    if ("status" in answer) {
      if (answer.status !== 200) return failed(`status ${answer.status}`);
    } else if (answer.type !== "answer") return failed(answer.type);
    return performance.now() - began;
  } catch (error) {
    return failed(messageOf(error));
  }
}

const livez = (stage: Stage) => stage.get("/livez", HEALTH_PORT);

const healthOnLoopback = (stage: Stage) => stage.get("/healthz", HEALTH_PORT);

const healthFromOutside = ({ network }: Stage) =>
  httpGet(network, { from: "client", address: a.node, port: HEALTH_PORT, path: "/healthz" });

async function nodePortOnLoopback({ network }: Stage) {
  const from = { from: NODE, source: a.loopback, timeout: PROBE_TIMEOUT };
  const [outcome] = await network.connect({ ...from, address: a.loopback, port: NODE_PORT });
  return outcome ?? { type: "no outcome" };
}
