/**
 * The arguments of `deno compile`, and the targets.
 *
 * @module
 */

/** The machines that binaries are made for, as Deno and Rust name them. */
export const TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] as const;

/** One of them. */
export type Target = typeof TARGETS[number];

/**
 * V8's heap in MiB at most. A compiled binary ignores `DENO_V8_FLAGS`; the unit's `MemoryMax`
 * has room for this and for an nft beside it.
 */
const MAX_HEAP = 1024;

/**
 * How V8 keeps its memory small; the task `start` has the same. bench/README.md has what each flag saves.
 *
 * - `--expose-gc` lets the daemon give memory back when it rests (lib/system/runtime.ts).
 * - Young objects get 2 MiB, not 16. With 1 MiB, the first sync of 1,000,000 endpoints takes a quarter more CPU time.
 * - What has survived a collection may grow by 50 % until the next one, not by up to 300 %. With 30 %, the start of
 *   1,000,000 endpoints has 15 collections, not 10, and 40 MB less at its peak.
 * - V8 collects twice more, in small steps, 1 s after large work (its memory reducer), not after 8 s.
 * - Functions are optimised 25 and 100 times later, for the code and the optimisers' own pages count, too. Later still
 *   saves 2 MB more, but a change at 10,000 Services takes 10 ms, not 9.
 */
export const V8_FLAGS = [
  "--expose-gc",
  "--max-semi-space-size=2",
  "--heap-growing-percent=50",
  "--memory-reducer-delay-ms=1000",
  "--invocation-count-for-maglev=10000",
  "--invocation-count-for-turbofan=300000",
].join(",");

/**
 * The environment of each daemon. glibc has one arena for all threads, and gives the end of its heap back at once. Deno
 * gives back what lies between at SIGUSR2, which the daemon sends itself (lib/system/runtime.ts).
 */
export const ENVIRONMENT = [
  "MALLOC_ARENA_MAX=1",
  "MALLOC_TRIM_THRESHOLD_=131072",
  "DENO_USR2_MEMORY_TRIM=1",
];

/** Everything of a kind, or a list of names and paths. */
type Allowed = true | readonly string[];

/** The permissions in `deno.json`, by kind. What is ignored is as if it were not there. */
export type Permissions = Readonly<
  Record<string, Allowed | Partial<Readonly<Record<"allow" | "deny" | "ignore", Allowed>>>>
>;

/** The folder of the files that all modules become. */
export const BUNDLE = "bundle";

/** The one of them that begins. `deno compile` puts its name into the binary. */
export const ENTRY_POINT = `${BUNDLE}/main.js`;

/** The bundle to compile, and the path of the binary. */
export interface CompileOptions {
  readonly target: Target;
  /** True: V8 makes no machine code at run time. */
  readonly jitless: boolean;
  readonly permissions: Permissions;
  /** Path of the binary. */
  readonly output: string;
}

/**
 * The arguments for `deno` that join all modules to the files in `BUNDLE`, in the folder with `main.ts`.
 * What is not in `deno.lock` is refused.
 *
 * Joined, because Deno 2.9.6 overflows its stack over the packages (denoland/deno#36746), and
 * because the daemon takes less memory. Not to one file: each start would read all commands, and
 * V8 keeps no code of modules that wait in functions until they are asked for. With `--node-modules-dir`,
 * because then no name depends on where Deno's cache is. Not by `deno compile --bundle`, which puts a
 * random name into each binary. Not minified: a stack trace would name nothing.
 */
export function bundleArguments(): string[] {
  return [
    "bundle",
    "--quiet",
    "--check",
    "--frozen-lockfile",
    "--node-modules-dir=auto",
    "--config=deno.json",
    "--code-splitting",
    `--outdir=${BUNDLE}`,
    "main.ts",
  ];
}

/**
 * The arguments for `deno` in the folder that has `BUNDLE`. What is not allowed is refused: there is
 * no one to ask. `--quiet` goes into the binary: without it, each start prints a line for each
 * program of the permissions that the node lacks.
 */
export function compileArguments(options: CompileOptions): string[] {
  const { target, jitless, permissions, output } = options;
  const v8Flags = [`--max-old-space-size=${MAX_HEAP}`, V8_FLAGS, ...jitless ? ["--jitless"] : []];
  return [
    "compile",
    "--quiet",
    "--no-check",
    "--no-lock",
    "--config=compile.json",
    `--target=${target}`,
    `--output=${output}`,
    `--v8-flags=${v8Flags.join(",")}`,
    "--no-prompt",
    ...permissionFlags(permissions),
    ENTRY_POINT,
  ];
}

/** The list of `deno.json` as flags. */
function permissionFlags(permissions: Permissions): string[] {
  return Object.entries(permissions).flatMap(([kind, given]) => {
    const isList = given === true || Array.isArray(given);
    const flags: [string, Allowed][] = Object.entries(isList ? { allow: given } : given);
    return flags.map(([verb, what]) =>
      `--${verb}-${kind}${what === true ? "" : `=${what.join(",")}`}`
    );
  });
}

/** Machine numbers in the header of a program file (elf(5), `e_machine`). */
const MACHINES: ReadonlyMap<number, Target> = new Map([
  [62, "x86_64-unknown-linux-gnu"],
  [183, "aarch64-unknown-linux-gnu"],
]);

/** The target that a program file is for; `undefined` where it is none of ours. */
export function targetOf(header: Uint8Array): Target | undefined {
  const isElf = header[0] === 0x7f && String.fromCharCode(...header.slice(1, 4)) === "ELF";
  if (!isElf || header.length < 20) return undefined;
  return MACHINES.get(new DataView(header.buffer, header.byteOffset).getUint16(18, true));
}

/** The name of a binary, and of its archive without the ending. */
export function binaryName(target: Target, jitless = false): string {
  return `signpost-${jitless ? "jitless-" : ""}${target}`;
}
