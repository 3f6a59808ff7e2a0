/**
 * One run: a kernel and an nft are downloaded, a machine boots and does its plan.
 *
 * @module
 */
import { makeBootFiles } from "./boot_files.ts";
import type { Bundles } from "./bundles.ts";
import { isWithoutIpv6, type MachineRun } from "./catalog.ts";
import type { Plan } from "./guest.ts";
import { runMachine } from "./machine.ts";
import { prepareNft, prepareProgram } from "./nft.ts";
import { findProgram, type Packages } from "./packages.ts";
import { DENO, prepareUserland } from "./userland.ts";
import {
  type Backend,
  collectResults,
  type MachineFacts,
  type RunResult,
  stepsOf,
} from "./steps.ts";

/** The parts that all runs share. */
export interface Workshop {
  readonly packages: Packages;
  /** The folder of downloads. */
  readonly cache: string;
  readonly bundles: Bundles;
  /** A program without libraries. */
  readonly busybox: string;
  /** The folder with `flows.py`, and one with its rules; `undefined`: no run plays them. */
  readonly flows: { readonly conformance: string; readonly rules: string } | undefined;
  readonly backends: readonly Backend[];
  /** See `Options`. */
  readonly kubeProxy?: string | undefined;
  /** Ends the machine. */
  readonly signal: AbortSignal;
}

/** The packages that a kernel's image depends on and that a machine needs. */
const KERNEL_PACKAGE = /^linux-(?:image|binary|modules|base)-\d+\.\d+\.\d+/;
/** The programs of kube-proxy's ipvs mode. Each is in the package of its name. */
const IPVS_PROGRAMS = ["ipvsadm", "ipset"];
/** The rules that kube-proxy's ipvs mode left last. */
const RECORDING = new URL("ipvs/recording.json", import.meta.url).pathname;
const TRAFFIC = new URL("flowtables/traffic.py", import.meta.url).pathname;
const CONSOLE_LINES = 3;
const TIME_LIMIT = "not tried: the run was ended before";

/**
 * Runs one machine in a folder of its own.
 *
 * @throws {NotAvailable} if a package cannot be downloaded
 */
export async function runKernel(
  run: MachineRun,
  shop: Workshop,
  folder: string,
): Promise<RunResult> {
  const steps = stepsOf(run, shop.backends);
  if (shop.signal.aborted) {
    const failed = collectResults(steps, [], TIME_LIMIT);
    return { name: run.name, note: run.note, version: "", steps: failed, seconds: 0 };
  }
  const { architecture } = run;
  const all = await shop.packages.dependencies(run.suite, run.package, architecture);
  const names = all.filter((name) => KERNEL_PACKAGE.test(name));
  const isImage = (name: string) => name.startsWith("linux-image-");
  const unpacked = await shop.packages.unpack(run.suite, [
    ...names.filter(isImage),
    ...names.filter((name) => !isImage(name)),
  ], architecture);
  const userland = architecture && await prepareUserland(run.suite, shop.cache);
  const others = run.only === "ipvs" ? IPVS_PROGRAMS : [];
  const path = userland === undefined ? [await prepareNft(shop.packages, run.nft)] : [];
  for (const name of others) {
    path.push(await prepareProgram(shop.packages, run.suite, { program: name, name }));
  }
  const busybox = architecture
    ? await findProgram(
      await shop.packages.unpack(run.suite, ["busybox-static"], architecture),
      "busybox",
    )
    : shop.busybox;
  const boot = await makeBootFiles(unpacked, { first: busybox, busybox: shop.busybox, folder });

  const out = `${folder}/out`;
  await Deno.mkdir(out);
  const plan: Plan = {
    steps,
    families: isWithoutIpv6(run) ? [4] : [4, 6],
    conformance: shop.flows?.conformance ?? "",
    rules: shop.flows?.rules ?? "",
    traffic: TRAFFIC,
    ...(run.foreignNft && { foreignNft: `${await prepareNft(shop.packages, run.foreignNft)}/nft` }),
    ...(shop.kubeProxy !== undefined && { kubeProxy: shop.kubeProxy }),
  };
  await Deno.writeTextFile(`${out}/plan.json`, JSON.stringify(plan));
  const deno = (command: readonly string[]) =>
    [userland === undefined ? command[0] : DENO, ...command.slice(1)].join(" ");
  const { signpost, guest } = shop.bundles;
  const started = performance.now();
  await runMachine({
    boot,
    kernelArguments: run.kernelArguments ?? [],
    command: `SIGNPOST_BIN="${deno(signpost)}" ${deno(guest)} /out > /out/log 2>&1`,
    userland,
    out,
    path,
    countsInstructions: run.only === "flowtables",
    signal: shop.signal,
  });
  const facts = await Deno.readTextFile(`${out}/facts.json`).catch(() => "");
  const lines = (await Deno.readTextFile(`${out}/results`).catch(() => "")).split("\n");
  // A machine sees this one's files, and changes none.
  await Deno.copyFile(`${out}/recording.json`, RECORDING).catch(() => {});
  const report = await Deno.readTextFile(`${out}/report`).catch(() => "");
  return {
    ...report !== "" && { report },
    name: run.name,
    note: run.note,
    version: unpacked.split("_")[1] ?? "",
    ...(facts !== "" && { facts: JSON.parse(facts) as MachineFacts }),
    steps: collectResults(steps, lines.filter((line) => line !== ""), await ending(out, shop)),
    seconds: Math.round((performance.now() - started) / 1000),
  };
}

/** Returns the reason why a machine ended before its last step. */
async function ending(out: string, { signal }: Workshop): Promise<string> {
  if (signal.aborted) return TIME_LIMIT;
  const texts = await Promise.all(
    ["console", "log"].map((name) => Deno.readTextFile(`${out}/${name}`).catch(() => "")),
  );
  const last = texts.flatMap((text) => text.trim().split(/[\r\n]+/).slice(-CONSOLE_LINES));
  return `the machine ended before: ${last.join("; ")}`;
}
