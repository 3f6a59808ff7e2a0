/**
 * `deno task bench --hostile`: how the work grows with each dimension of hostile objects, and what
 * attacks do to probes, changes and memory.
 *
 * Objects of one, two and four times a size are decoded and become desired state and a script, with
 * no limit in force. An exponent of 1 is linear work. Then each attack meets a daemon of this checkout,
 * and one of another checkout if it is named.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { IptablesDataplane } from "../lib/backend/iptables/dataplane.ts";
import { NftablesDataplane } from "../lib/backend/nftables/dataplane.ts";
import { Nft } from "../lib/backend/nftables/nft.ts";
import { DEFAULTS } from "../tests/support/configuration.ts";
import { type ApiObject, Pipeline } from "../tests/support/pipeline.ts";
import { COSTLY_KINDS } from "../tests/fuzz/costly.ts";
import {
  ATTACKED,
  ATTACKED_CONFIG,
  ATTACKER,
  ATTACKS,
  denoIn,
  type Figures,
  formatMemory,
  formatQuantiles,
  observe,
  startAttack,
  startHolding,
} from "../tests/e2e/hostile/attacks.ts";
import { HEALTH_PORT, Stage, syncs } from "../tests/e2e/stage.ts";
import { signpostCommand } from "../tests/support/signpost.ts";
import { NODE } from "../tests/support/topology.ts";
import { print, progress } from "./report.ts";

/** The first of three sizes. */
const SIZE = 4_000;
const RUNS = 5;
const NO_LIMITS = { service: 1e9, namespace: 1e9 };
const NOT_RUN = () => Promise.reject(new Error("nothing is run"));

/** The least milliseconds of several runs. */
function measure(mode: "nftables" | "iptables", objects: readonly ApiObject[]): number {
  let least = Infinity;
  for (let run = 0; run < RUNS; run++) {
    const began = performance.now();
    const signpost = { ...DEFAULTS.signpost, limits: NO_LIMITS };
    const pipeline = new Pipeline({ mode, configuration: { signpost } });
    pipeline.load(objects);
    const plane = mode === "nftables"
      ? new NftablesDataplane(new Nft({ run: NOT_RUN }))
      : new IptablesDataplane({
        runner: { run: NOT_RUN },
        iptables: { variant: "-nft", families: [4], tcpBeLiberal: false },
        routeLocalnet: NOT_RUN,
      });
    plane.full(pipeline.desired).text;
    least = Math.min(least, performance.now() - began);
  }
  return least;
}

/** Seconds of each attack, and until the API server's objects are read. */
const ATTACK_SECONDS = 30;
const OBJECTS_SECONDS = 120;
/** Connections of an attack; of a program on loopback, more than all Services together may have. */
const CONNECTIONS = 2_000;
const HALF_CLOSED = 4_200;
/** Descriptors of the daemon for idle connections, a common limit. */
const FEW_DESCRIPTORS = 4_096;
const DESCRIPTORS = 65_536;
/** Slices of the API server, and endpoints of each. */
const SLICES = 60_000;
const ENDPOINTS = 1_000;
const API_PORT = 7_443;

/** A checkout by its name, and the command that starts its daemon. */
interface Program {
  readonly name: string;
  readonly command: readonly string[];
}

/** Returns the command of another checkout's daemon. Its permissions are its own. */
function programOf(path: string): Program {
  const [root, other] = [new URL("..", import.meta.url).pathname, `${path}/`];
  const command = signpostCommand().map((part) => part.replace(root, other));
  return { name: path.split("/").at(-1) ?? path, command };
}

/** Has a program open so many files at most. */
function withDescriptors(count: number, command: readonly string[]): string[] {
  return ["sh", "-c", `ulimit -n ${count}; exec "$@"`, "sh", ...command];
}

async function measureAttack(
  name: keyof typeof ATTACKS,
  { command }: Program,
): Promise<Figures> {
  const attack = ATTACKS[name];
  const connections = name.startsWith("half") ? HALF_CLOSED : CONNECTIONS;
  const descriptors = name === "idle" ? FEW_DESCRIPTORS : DESCRIPTORS;
  await using stage = await Stage.create({ objects: ATTACKED, config: ATTACKED_CONFIG });
  await using _holding = startHolding(stage);
  await using signpost = stage.start([], { command: withDescriptors(descriptors, command) });
  await signpost.until("the first sync", () => syncs(signpost, "full") > 0);
  return await observe(stage, {
    signpost,
    seconds: ATTACK_SECONDS,
    attacks: () => [startAttack(stage, { ...attack, connections }, ATTACKER)],
  });
}

/** Measures a daemon whose API server has too many objects. Nothing changes meanwhile. */
async function measureObjects({ command }: Program): Promise<Figures> {
  await using stage = await Stage.create();
  const script = new URL("../tests/e2e/hostile/slices_main.ts", import.meta.url).pathname;
  const args = ["run", "-qA", script, `${API_PORT}`, `${SLICES}`, `${ENDPOINTS}`];
  await using server = denoIn(stage, NODE, args);
  const path = `${stage.folder}/kubeconfig`;
  const kubeconfig = (await Deno.readTextFile(path))
    .replace(/https:[^"]*/, `http://127.0.0.1:${API_PORT}`);
  await Deno.writeTextFile(path, kubeconfig);
  await using signpost = stage.start([], { command });
  await signpost.until(
    "the health server",
    () => stage.get("/livez", HEALTH_PORT).then(() => true),
  );
  const figures = await observe(stage, {
    signpost,
    seconds: OBJECTS_SECONDS,
    attacks: () => [],
    hasChanges: false,
  });
  progress(`${server.lines.length > 0 ? "all" : "not all"} slices were sent`);
  return figures;
}

/** Prints a table of attacks, with a row for each program. */
async function measureAttacks(programs: readonly Program[]): Promise<void> {
  print(
    "| attack | daemon | probes failed | slowest probe | change p50 / p99 | RSS before → peak → a minute later |\n",
  );
  print("|---|---|---|---|---|---|\n");
  const row = (attack: string, { name }: Program, figures: Figures) => {
    const { probes, failures, slowestProbe, changes, memory } = figures;
    for (const failure of failures) progress(failure);
    const times = changes.length > 0 ? formatQuantiles(changes) : "–";
    const cells = [
      ...[attack, name, `${failures.length} of ${probes}`, `${slowestProbe.toFixed(0)} ms`],
      ...[times, memory.peak === 0 || memory.after === 0 ? "it died" : formatMemory(memory)],
    ];
    print(`| ${cells.join(" | ")} |\n`);
  };
  for (const name of Object.keys(ATTACKS) as (keyof typeof ATTACKS)[]) {
    const connections = name.startsWith("half") ? HALF_CLOSED : CONNECTIONS;
    for (const program of programs) {
      row(`${connections} × ${name}`, program, await measureAttack(name, program));
    }
  }
  for (const program of programs) {
    row(`${SLICES} slices of ${ENDPOINTS} endpoints`, program, await measureObjects(program));
  }
}

/** Prints how the work grows, then the table of attacks. @throws {Error} if the arguments are not valid */
export async function hostile(argv: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...argv],
    options: { hostile: { type: "boolean" }, beside: { type: "string" } },
  });
  printGrowth();
  print("\n");
  const here = { name: "this checkout", command: signpostCommand() };
  await measureAttacks(values.beside === undefined ? [here] : [programOf(values.beside), here]);
}

/** Prints a row for each mode and dimension. */
function printGrowth(): void {
  print(`| mode | dimension | ${SIZE} | ${2 * SIZE} | ${4 * SIZE} | exponent |\n`);
  print("|---|---|---|---|---|---|\n");
  for (const mode of ["nftables", "iptables"] as const) {
    for (const [name, objects] of Object.entries(COSTLY_KINDS)) {
      const times = [SIZE, 2 * SIZE, 4 * SIZE].map((each) => measure(mode, objects(each)));
      const [first = 1, , last = 1] = times;
      const exponent = Math.log2(last / first) / 2;
      const cells = times.map((each) => `${each.toFixed(1)} ms`);
      print(`| ${mode} | ${name} | ${cells.join(" | ")} | ${exponent.toFixed(2)} |\n`);
    }
  }
}
