/**
 * `--once` on another processor: Deno for aarch64 under qemu's user mode prints the same bytes.
 *
 * @module
 */
import { execute } from "../../tests/support/command.ts";
import type { Bundles } from "./bundles.ts";
import { AARCH64 } from "./catalog.ts";
import { NotAvailable, type Packages } from "./packages.ts";
import type { RunResult, StepResult } from "./steps.ts";

const QEMU = "qemu-aarch64-static";
const PACKAGE = "@deno/linux-arm64-glibc";
/** libc and what Deno's program is linked with besides. */
const LIBRARIES = ["libc6", "libgcc-s1"];

/**
 * Compares both modes.
 *
 * @param options.root of the checkout
 * @param options.folder for the download
 * @throws {NotAvailable} where something cannot be downloaded
 */
export async function runAarch64(options: {
  readonly packages: Packages;
  readonly bundles: Bundles;
  readonly root: string;
  readonly folder: string;
}): Promise<RunResult> {
  const { packages, bundles, root, folder } = options;
  const started = performance.now();
  const libraries = await packages.unpack("bookworm", LIBRARIES, "arm64");
  const { program, version } = await downloadDeno(folder);
  const emulated = [QEMU, "-L", libraries, program, ...bundles.signpost.slice(1)];
  const steps: StepResult[] = [];
  for (const backend of ["nftables", "iptables"] as const) {
    const config = `${folder}/${backend}.yaml`;
    const text = await Deno.readTextFile(`${root}examples/config.yaml`);
    await Deno.writeTextFile(config, text.replace(/^mode:.*$/m, `mode: ${backend}`));
    const args = ["--once", "--config", config, "--hostname-override=node-1"];
    const from = performance.now();
    const [here, there] = await Promise.all(
      [bundles.signpost, emulated].map((command) =>
        execute([...command, ...args, "--manifests", `${root}examples/`], {
          env: { DENO_DIR: `${folder}/deno` },
        })
      ),
    );
    const passed = here?.code === 0 && there?.code === 0 && here.stdout === there.stdout &&
      here.stdout !== "";
    const detail = passed ? `${here.stdout.length} bytes` : there?.stderr.trim() || "other bytes";
    const seconds = Math.round((performance.now() - from) / 100) / 10;
    steps.push({ backend, part: "once", passed, detail, seconds });
  }
  return {
    name: AARCH64,
    note: "--once on another processor (qemu's user mode)",
    version: `Deno ${version}`,
    steps,
    seconds: Math.round((performance.now() - started) / 1000),
  };
}

/** This Deno's version, or the newest that the registry has. */
async function downloadDeno(folder: string): Promise<{ program: string; version: string }> {
  for (const version of [Deno.version.deno, "latest"]) {
    const pack = ["npm", "pack", "--silent", "--pack-destination", folder];
    const { code, stdout } = await execute([...pack, `${PACKAGE}@${version}`]).catch((cause) => {
      throw new NotAvailable("npm, which downloads Deno for aarch64, cannot be run", { cause });
    });
    if (code !== 0) continue;
    const file = stdout.trim().split("\n").at(-1) ?? "";
    const { code: unpacked } = await execute(["tar", "-xzf", `${folder}/${file}`, "-C", folder]);
    if (unpacked !== 0) break;
    const found = /(\d+\.\d+\.\d+)\.tgz$/.exec(file)?.[1] ?? version;
    return { program: `${folder}/package/deno`, version: found };
  }
  throw new NotAvailable(`npm has no ${PACKAGE}`);
}
