/**
 * Runs in the machine: tries each step of the plan, and writes a line of JSON for each into `/out/results`.
 *
 * @module
 */
import type { Family } from "../../lib/model/values/address.ts";
import { execute, run } from "../../tests/support/command.ts";
import { say } from "../terminal.ts";
import { SOLE_PARTS } from "./catalog.ts";
import { DaemonLife } from "./guest_daemon.ts";
import { tryFlowtables } from "./flowtables/scenario.ts";
import { Findings } from "./ipvs/findings.ts";
import type { Recording } from "./ipvs/recording.ts";
import { takeOverFromIpvs } from "./ipvs/scenario.ts";
import {
  type Backend,
  LIFE_PARTS,
  type LifePart,
  type MachineFacts,
  type Step,
  type StepResult,
} from "./steps.ts";

/** The work of the machine. */
export interface Plan {
  readonly steps: readonly Step[];
  /** The families that the kernel has. */
  readonly families: readonly Family[];
  /** The folder with `flows.py`, and the one with its rules. */
  readonly conformance: string;
  readonly rules: string;
  /** The nft that writes another program's table. */
  readonly foreignNft?: string;
  /** A program to take over from, in the place of what it has left in a recording. */
  readonly kubeProxy?: string;
  /** The path of `flowtables/traffic.py`. */
  readonly traffic: string;
}

const LONGEST_DETAIL = 1_000;

/** Reads the plan, and does it. */
async function main(folder: string): Promise<void> {
  const plan = JSON.parse(await Deno.readTextFile(`${folder}/plan.json`)) as Plan;
  await Deno.writeTextFile(`${folder}/facts.json`, JSON.stringify(await readFacts()));
  const record = async (result: StepResult) => {
    await Deno.writeTextFile(`${folder}/results`, `${JSON.stringify(result)}\n`, { append: true });
  };
  const backends = new Set(plan.steps.map(({ backend }) => backend));
  for (const backend of backends) {
    const parts = plan.steps.filter((step) => step.backend === backend).map(({ part }) => part);
    const bodies = {
      flows: () => runFlows(backend, plan),
      ipvs: () => runIpvs(backend, plan, folder),
      flowtables: () => report({ backend, folder }, (findings) => tryFlowtables(plan, findings)),
    };
    for (const part of ["flows", ...SOLE_PARTS] as const) {
      if (parts.includes(part)) await record(await judge({ backend, part }, bodies[part]));
    }
    const life = LIFE_PARTS.filter((part) => parts.includes(part));
    await runLife(backend, { parts: life, plan, record });
  }
}

async function readFacts(): Promise<MachineFacts> {
  const uptime = Number((await Deno.readTextFile("/proc/uptime")).split(" ")[0]);
  const nft = await run(["nft", "--version"]);
  return { release: Deno.osRelease(), nft: nft.trim(), boot: uptime };
}

/** Runs one part after another. After a failure, all later parts fail too. */
async function runLife(backend: Backend, options: {
  readonly parts: readonly LifePart[];
  readonly plan: Plan;
  readonly record: (result: StepResult) => Promise<void>;
}): Promise<void> {
  const { parts, plan, record } = options;
  if (parts.length === 0) return;
  const creating = DaemonLife.create(backend, plan);
  await using resources = new AsyncDisposableStack();
  resources.defer(() => creating.then((life) => life[Symbol.asyncDispose](), () => {}));
  let failed: LifePart | undefined;
  for (const part of parts) {
    const result = await judge({ backend, part }, async () => {
      if (failed) throw new Error(`not tried: ${failed} failed`);
      await (await creating).run(part);
      return "";
    });
    if (!result.passed) failed ??= part;
    await record(result);
  }
}

function runIpvs(
  backend: Backend,
  { families, kubeProxy }: Plan,
  folder: string,
): Promise<string> {
  const keep = async (recording: Recording) => {
    const text = `${JSON.stringify(recording, undefined, 2)}\n`;
    if (backend === "nftables") await Deno.writeTextFile(`${folder}/recording.json`, text);
  };
  return report(
    { backend, folder },
    (findings) => takeOverFromIpvs({ backend, families, kubeProxy, keep }, findings),
  );
}

/**
 * Writes the findings into the file `report`, also if the body throws.
 *
 * @throws {Error} with all problems
 */
async function report(
  { backend, folder }: { readonly backend: Backend; readonly folder: string },
  body: (findings: Findings) => Promise<void>,
): Promise<string> {
  const findings = new Findings(say);
  try {
    await body(findings);
  } finally {
    const text = `${backend}:\n${findings}\n`;
    await Deno.writeTextFile(`${folder}/report`, text, { append: true });
  }
  if (findings.problems.length > 0) throw new Error(findings.problems.join("; "));
  return "";
}

/** Plays the flows. The last line of `flows.py` is `N/M flows as expected, K skipped`. */
async function runFlows(backend: Backend, { conformance, rules }: Plan): Promise<string> {
  const mode = backend === "nftables" ? ["nftables"] : ["iptables", "--route-localnet"];
  const { code, stdout, stderr } = await execute([
    ...["python3", `${conformance}/flows.py`, `${conformance}/packet-flows.json`],
    ...["--raw-sctp", "--rules-from", rules, "--timeout", "4", "--mode", ...mode],
    ...(backend === "iptables-legacy" ? ["--legacy"] : []),
  ]);
  const lines = `${stdout}${stderr}`.trim().split("\n");
  const [last = ""] = lines.slice(-1);
  if (code !== 0) throw new Error([last, ...lines.slice(0, -1)].join("; "));
  return last;
}

async function judge(step: Step, body: () => Promise<string>): Promise<StepResult> {
  const started = performance.now();
  const [passed, detail] = await body().then(
    (text) => [true, text] as const,
    (error) => [false, describe(error)] as const,
  );
  const seconds = Math.round((performance.now() - started) / 100) / 10;
  const text = detail.replaceAll(/\s*\n\s*/g, "; ");
  return { ...step, passed, detail: shorten(text), seconds };
}

/** Returns the message of an error, with those of its causes. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${describe(error.cause)}`;
}

/** Keeps the beginning of a text, which names the fault, and the end, which gives the reason. */
function shorten(text: string): string {
  if (text.length <= LONGEST_DETAIL) return text;
  return `${text.slice(0, LONGEST_DETAIL / 2)} ... ${text.slice(-LONGEST_DETAIL / 2)}`;
}

if (import.meta.main) await main(Deno.args[0] ?? "/out");
