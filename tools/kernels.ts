/**
 * `deno task kernels`: signpost on the kernels and with the nft that users have.
 *
 * Debian's kernels boot by software emulation, one after the other. Nothing is left behind but
 * what `--cache` names; root is only needed to install missing programs.
 *
 * @module
 */
import { complain, say } from "./terminal.ts";
import { makeBundles } from "./kernels/bundles.ts";
import { dayOfYear, MACHINE_RUNS } from "./kernels/catalog.ts";
import { writeDocuments } from "./kernels/documents.ts";
import { HELP, type Options, readOptions, renderList } from "./kernels/options.ts";
import { NotAvailable, Packages } from "./kernels/packages.ts";
import { makeRules } from "./kernels/rules.ts";
import { runKernel, type Workshop } from "./kernels/run.ts";
import { BACKENDS, type RunResult, stepsOf } from "./kernels/steps.ts";
import { countSteps, renderProblems, renderTable } from "./kernels/table.ts";
import { installPrograms, locateProgram } from "./programs.ts";

const ROOT = new URL("..", import.meta.url).pathname;
/** The machines, and what makes their files. */
const MACHINE_PROGRAMS = [
  ...["qemu-system-x86_64", "busybox", "modprobe", "python3"],
  ...["iptables-nft", "ip", "conntrack", "sysctl"],
];
const ARM64_PROGRAMS = ["qemu-system-aarch64", "mmdebstrap"];

/** Runs what is asked for. @returns the exit code */
async function main(args: readonly string[]): Promise<number> {
  const context = { day: dayOfYear(new Date()), release: Deno.osRelease() };
  const options = readOptions(args, context);
  if (options === "help" || options === "list") {
    say((options === "help" ? HELP : renderList()).trimEnd());
    return 0;
  }
  const problem = await findProblem(options);
  const results = problem === undefined
    ? await runAll(options).catch((error) => {
      if (!(error instanceof NotAvailable)) throw error;
      return options.names.map((name) => leftOut(name, error.message));
    })
    : options.names.map((name) => leftOut(name, problem));
  say();
  say(renderTable(results));
  for (const line of renderProblems(results)) say(line);
  const { passed, failed } = countSteps(results);
  say(`${passed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

/** @returns what is in the way of all runs */
async function findProblem({ names }: Options): Promise<string | undefined> {
  if (Deno.build.arch !== "x86_64") return "the machines are x86_64, and this one is not";
  const isArm64 = MACHINE_RUNS.some((run) => names.includes(run.name) && run.architecture);
  return await installPrograms([...MACHINE_PROGRAMS, ...isArm64 ? ARM64_PROGRAMS : []], {
    needsRoot: isArm64,
  });
}

async function runAll(options: Options): Promise<RunResult[]> {
  await using resources = new AsyncDisposableStack();
  const scratch = await Deno.makeTempDir({ prefix: "signpost-kernels-" });
  resources.defer(() => Deno.remove(scratch, { recursive: true }));
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(), options.limit);
  resources.defer(() => clearTimeout(timer));
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    const end = () => ending.abort();
    Deno.addSignalListener(name, end);
    resources.defer(() => Deno.removeSignalListener(name, end));
  }
  const cache = options.cache ?? `${scratch}/cache`;
  const packages = new Packages(cache);
  const bundles = await makeBundles(ROOT, scratch);
  const hasFlows = MACHINE_RUNS.some((run) =>
    options.names.includes(run.name) && stepsOf(run, BACKENDS)
      .some(({ part }) => part === "flows")
  );
  const shop: Workshop = {
    packages,
    cache,
    bundles,
    busybox: locateProgram("busybox") ?? "/bin/busybox",
    flows: hasFlows ? await prepareFlows(bundles.signpost, scratch) : undefined,
    backends: options.backends,
    kubeProxy: options.kubeProxy && await Deno.realPath(options.kubeProxy),
    signal: ending.signal,
  };
  const results: RunResult[] = [];
  for (const name of options.names) {
    const folder = `${scratch}/${name}`;
    await Deno.mkdir(folder);
    complain(`${name}:`);
    const result = await runOne(name, shop, folder);
    for (const { backend, part, passed, detail, seconds } of result.steps) {
      complain(`  ${passed ? "ok  " : "FAIL"} ${backend} ${part} (${seconds} s) ${detail}`);
    }
    if (result.report !== undefined) say(result.report);
    results.push(result);
    // Not at the end: what was run stays known when something interrupts the rest.
    if (options.writesDocs) await writeDocuments(ROOT, [result]);
    await Deno.remove(folder, { recursive: true });
  }
  return results;
}

/** Runs one kernel. One that cannot be downloaded is left out. */
async function runOne(name: string, shop: Workshop, folder: string): Promise<RunResult> {
  try {
    const run = MACHINE_RUNS.find((each) => each.name === name);
    if (run === undefined) throw new Error(`there is no ${name}`);
    return await runKernel(run, shop, folder);
  } catch (error) {
    if (error instanceof NotAvailable) return leftOut(name, error.message);
    throw error;
  }
}

function leftOut(name: string, reason: string): RunResult {
  return { name, note: "", version: "", steps: [], seconds: 0, leftOut: reason };
}

/** Writes the rules of the recorded flows. */
async function prepareFlows(
  signpost: readonly string[],
  scratch: string,
): Promise<Workshop["flows"]> {
  const conformance = `${ROOT}tests/conformance`;
  const rules = `${scratch}/rules`;
  await Deno.mkdir(rules);
  await makeRules({ conformance, signpost, folder: rules });
  return { conformance, rules };
}

if (import.meta.main) {
  // depmod and modprobe are where only root looks.
  Deno.env.set("PATH", `${Deno.env.get("PATH") ?? ""}:/usr/sbin:/sbin`);
  Deno.exit(
    await main(Deno.args).catch((error) => {
      complain(`deno task kernels: ${error instanceof Error ? error.message : error}`);
      return 2;
    }),
  );
}
