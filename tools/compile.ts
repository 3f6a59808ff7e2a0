/**
 * `deno task compile`: one binary for each target in `dist/`.
 *
 * The runtime is what `DENORT_BIN` names, for its own target alone; else Deno's cache has it; else
 * Deno downloads it.
 *
 * @module
 */
import { binaryName, type Permissions, type Target, TARGETS } from "./compile/arguments.ts";
import { makeBinary, readTarget } from "./compile/binary.ts";
import { makeBundle, modulesOf, packagesOf } from "./compile/bundle.ts";
import { readCommit } from "./compile/commit.ts";
import { complain, mebibytes, say } from "./terminal.ts";
import { parseArgs } from "node:util";

const ROOT = new URL("..", import.meta.url).pathname;

const HELP = `deno task compile: makes a binary of signpost for each target

  --jitless            V8 makes no machine code at run time, for hardened nodes: MemoryDenyWriteExecute=yes
                       works, and large clusters take it longer
  --target TARGET      only this one: ${TARGETS.join(" or ")}
  --dist FOLDER        where the binaries go (default dist)

DENORT_BIN names the runtime; without it, deno compile takes it from its cache or downloads it.`;

/** The request of the command line. */
interface Request {
  readonly jitless: boolean;
  readonly targets: readonly Target[];
  /** Absolute. */
  readonly dist: string;
}

/** @returns the request, or a line that says what is wrong */
function readRequest(args: readonly string[]): Request | string {
  const { values } = parseArgs({
    args: [...args],
    options: {
      jitless: { type: "boolean", default: false },
      target: { type: "string" },
      dist: { type: "string", default: "dist" },
    },
  });
  const targets = TARGETS.filter((each) => values.target === undefined || each === values.target);
  if (targets.length === 0) return `--target must be ${TARGETS.join(" or ")}, is ${values.target}`;
  const dist = values.dist.startsWith("/") ? values.dist : `${ROOT}${values.dist}`;
  return { jitless: values.jitless, targets, dist };
}

/** Returns the targets that the runtime in `DENORT_BIN` is for, or a line that says why there is none. */
async function possibleTargets(targets: readonly Target[]): Promise<readonly Target[] | string> {
  const named = Deno.env.get("DENORT_BIN");
  if (!named) {
    // deno compile takes an empty name for one.
    Deno.env.delete("DENORT_BIN");
    return targets;
  }
  const target = await readTarget(named);
  if (target !== undefined && targets.includes(target)) return [target];
  return `DENORT_BIN=${named} is no denort for ${targets.join(" or ")}`;
}

/** Compiles what can be compiled. @returns the exit code: 1 if a binary could not be made, 2 for wrong flags */
async function main(args: readonly string[]): Promise<number> {
  if (args.includes("--help")) {
    say(HELP);
    return 0;
  }
  const request = readRequest(args);
  if (typeof request === "string") {
    complain(request);
    return 2;
  }
  const targets = await possibleTargets(request.targets);
  if (typeof targets === "string") {
    complain(targets);
    return 1;
  }
  const folder = await Deno.makeTempDir({ prefix: "signpost-compile-" });
  try {
    return await compileAll(folder, { ...request, targets });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function compileAll(folder: string, { jitless, targets, dist }: Request): Promise<number> {
  const config = JSON.parse(await Deno.readTextFile(`${ROOT}deno.json`)) as {
    readonly permissions: { readonly default: Permissions };
    readonly unstable: readonly string[];
  };
  const commit = await readCommit();
  const bundle = await makeBundle(folder, commit);
  say(
    `bundle: ${Math.round(bundle.length / 1024)} KiB, ${modulesOf(bundle).length} modules, ` +
      `packages ${packagesOf(bundle).join(", ")}`,
  );
  let code = 0;
  for (const target of targets) {
    const output = `${dist}/${binaryName(target, jitless)}`;
    const { permissions: { default: permissions }, unstable } = config;
    const problem = await makeBinary(folder, { target, jitless, permissions, unstable, output });
    if (problem === undefined) {
      const { size } = await Deno.stat(output);
      say(`${output.replace(ROOT, "")}: ${mebibytes(size)}`);
    } else {
      complain(problem);
      code = 1;
    }
  }
  say(`commit: ${commit.hash || "unknown, this is no git checkout"}`);
  return code;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
