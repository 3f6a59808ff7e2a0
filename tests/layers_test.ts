/**
 * The rules of the house, held by reading the source: which folder may import what, where the
 * world is touched, how long a file is, and that every file says its subject.
 */
import { assertEquals } from "@std/assert";
import { dirname, join, relative } from "node:path/posix";
import { findTestFiles } from "../tools/test_files.ts";
import { ROWS } from "../lib/backend/nftables/sets.ts";

const ROOT = join(dirname(new URL(import.meta.url).pathname), "..");

/** Modules of Node that compute and touch nothing. */
const PURE_NODE_MODULES: ReadonlySet<string> = new Set(["node:crypto", "node:path/posix"]);

/** Matches names that only an adapter may use: the system, the clock, timers, the network, the terminal. */
const SYSTEM =
  /\b(?:Deno\.|Date\.now\b|new Date\(\)|performance\.|setTimeout\b|setInterval\b|fetch\(|console\.)/;

const MAX_LINES = 500;

/** The one file that loads others when they are asked for: the commands. */
const LAZY_IMPORTS = "lib/cli/command.ts";

/** An import that a bundler can follow. */
const LITERAL_IMPORT = /\bawait import\("([^"]+)"\)/g;

interface SourceFile {
  /** From the root of the project. */
  readonly path: string;
  readonly text: string;
  /** The text without comments. */
  readonly code: string;
  /** Module specifiers of its imports and re-exports. */
  readonly imports: readonly string[];
  /** How many of them load a module when it is asked for. */
  readonly lazy: number;
}

const SOURCES: readonly SourceFile[] = ["main.ts", ...listFiles("lib")].sort().map(readSource);
const PATHS: ReadonlySet<string> = new Set(SOURCES.map(({ path }) => path));

function listFiles(folder: string): string[] {
  return [...Deno.readDirSync(join(ROOT, folder))].flatMap(({ name, isDirectory }) => {
    const path = join(folder, name);
    return isDirectory ? listFiles(path) : path.endsWith(".ts") ? [path] : [];
  });
}

function readSource(path: string): SourceFile {
  const text = Deno.readTextFileSync(join(ROOT, path));
  const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
  const imports = [...code.matchAll(/^(?:import|export)\s(?:[^"';]*?\sfrom\s)?\s*"([^"]+)"/gm)];
  const lazy = path === LAZY_IMPORTS ? [...code.matchAll(LITERAL_IMPORT)] : [];
  return {
    path,
    text,
    code,
    imports: [...imports, ...lazy].map(([, specifier]) => specifier ?? ""),
    lazy: lazy.length,
  };
}

function target(from: SourceFile, specifier: string): string {
  return relative(ROOT, join(ROOT, dirname(from.path), specifier));
}

function ownImports(file: SourceFile): string[] {
  return file.imports.filter((each) => each.startsWith(".")).map((each) => target(file, each));
}

/** Returns imports that break a rule, as `FILE imports FILE`. */
function wrongImports(isWrong: (from: string, to: string) => boolean): string[] {
  return SOURCES.flatMap((file) =>
    ownImports(file).filter((to) => isWrong(file.path, to)).map((to) =>
      `${file.path} imports ${to}`
    )
  );
}

/** `lib/backend/nftables/nft.ts` is of the layer `nftables`; `main.ts` of none. */
function layerOf(path: string): string {
  return path.startsWith("lib/") ? path.split("/")[1] ?? "" : "";
}

/** The folders of lib/ in their order. Folders of one row do not know each other. */
const LAYERS: readonly (readonly string[])[] = [
  ["model"],
  ["config", "source"],
  ["cache"],
  ["policy"],
  ["findings"],
  ["backend"],
  ["conntrack", "healthcheck", "sync"],
  ["localhost", "explain"],
  ["observe"],
  ["system"],
  ["daemon"],
  ["cli"],
];

const RANKS: ReadonlyMap<string, number> = new Map(
  LAYERS.flatMap((row, rank) => row.map((folder) => [folder, rank] as const)),
);

/** A folder imports what stands before it; main.ts is above everything. */
function mayImport(from: string, to: string): boolean {
  const [source, destination] = [layerOf(from), layerOf(to)];
  if (source === "") return destination !== "";
  if (source === destination) return true;
  // The real side of the ports is passed in: only what wires the parts knows it.
  if (destination === "system") return source === "daemon" || source === "cli";
  return (RANKS.get(destination) ?? Infinity) < (RANKS.get(source) ?? -1);
}

function isAdapter(path: string): boolean {
  return path === "main.ts" || layerOf(path) === "system";
}

/** Lines of code that match, as `path: line`. */
function linesOf({ path, code }: SourceFile, pattern: RegExp): string[] {
  return code.split("\n").filter((line) => pattern.test(line)).map((line) =>
    `${path}: ${line.trim()}`
  );
}

Deno.test("the source of signpost was found", () => {
  assertEquals(PATHS.has("lib/model/cluster/objects.ts"), true);
  assertEquals(
    SOURCES.some(({ imports }) => imports.includes("../../model/kernel/desired.ts")),
    true,
  );
  const declarations = /^(?:import|export\s+(?:type\s+)?[{*][^;]*\sfrom)\b/gm;
  for (const { path, code, imports, lazy } of SOURCES) {
    assertEquals(imports.length - lazy, [...code.matchAll(declarations)].length, path);
  }
});

Deno.test("imports flow one way: a folder of lib/ knows itself and what stands before it", () => {
  assertEquals(wrongImports((from, to) => !mayImport(from, to)), []);
});

Deno.test("what is inside of a backend, only the backends know: all others ask the port", () => {
  const inside = /^lib\/backend\/[^/]+\//;
  const wrong = wrongImports((from, to) => layerOf(from) !== "backend" && inside.test(to));
  assertEquals(wrong, []);
});

Deno.test("a backend does not know another one", () => {
  const backendOf = (path: string) => /^lib\/backend\/([^/]+)\//.exec(path)?.[1];
  const wrong = wrongImports((from, to) =>
    backendOf(from) !== undefined && ![undefined, backendOf(from)].includes(backendOf(to))
  );
  assertEquals(wrong, []);
});

Deno.test("what the mode is, only the configuration and the choice of the backend ask", () => {
  const question = /\bmode [!=]==|[!=]== "(?:nftables|iptables)"|"nftables" \| "iptables"/;
  const files = SOURCES.filter(({ path }) =>
    layerOf(path) !== "config" &&
    !["lib/backend/choose.ts", "lib/findings/mode.ts"].includes(path)
  );
  assertEquals(files.flatMap((file) => linesOf(file, question)), []);
});

Deno.test("packages are imported by the names that deno.json gives them", () => {
  const { imports } = JSON.parse(Deno.readTextFileSync(join(ROOT, "deno.json"))) as {
    imports: Record<string, string>;
  };
  const names = Object.keys(imports);
  const isKnown = (specifier: string) =>
    names.some((name) => name.endsWith("/") ? specifier.startsWith(name) : specifier === name);
  const wrong = SOURCES.flatMap(({ path, imports }) =>
    imports.filter((each) => !each.startsWith(".") && !each.startsWith("node:"))
      .filter((each) => !isKnown(each)).map((each) => `${path} imports ${each}`)
  );
  assertEquals(wrong, []);
});

Deno.test("own modules are loaded on demand in one file", () => {
  const dynamic = SOURCES.map(({ path, code, lazy }) => ({
    path,
    other: [...code.matchAll(/\bimport\s*\((?!"node:)/g)].length - lazy,
  }));
  assertEquals(dynamic.filter(({ other }) => other > 0), []);
});

Deno.test("what all commands load does not import a command or the daemon", () => {
  const loaded = new Set<string>();
  const visit = (path: string): void => {
    const file = SOURCES.find((each) => each.path === path);
    if (file === undefined || loaded.has(path)) return;
    loaded.add(path);
    const always = file.imports.slice(0, file.imports.length - file.lazy);
    // A type costs nothing at run time.
    const values = always.filter((each) =>
      !new RegExp(`import type [^;]*from "${each.replaceAll(".", "\\.")}"`).test(file.code)
    );
    for (const each of values.filter((each) => each.startsWith("."))) visit(target(file, each));
  };
  visit(LAZY_IMPORTS);
  const heavy = [...loaded].filter((path) =>
    /^lib\/(?:daemon|backend|explain|sync|source|cache|policy)\//.test(path)
  );
  assertEquals(heavy, []);
});

Deno.test("no file imports itself through others", () => {
  const importsOf = new Map(SOURCES.map((file) => [file.path, ownImports(file)]));
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (path: string, way: readonly string[]) => {
    if (way.includes(path)) {
      cycles.push([...way.slice(way.indexOf(path)), path].join(" > "));
    } else if (!done.has(path)) {
      for (const next of importsOf.get(path) ?? []) visit(next, [...way, path]);
      done.add(path);
    }
  };
  for (const path of importsOf.keys()) visit(path, []);
  assertEquals(cycles, []);
});

Deno.test("only adapters touch the system, the clock, the network and the terminal", () => {
  const files = SOURCES.filter(({ path }) => !isAdapter(path));
  assertEquals(files.flatMap((file) => linesOf(file, SYSTEM)), []);
  const modules = files.flatMap(({ path, imports }) =>
    imports.filter((each) => each.startsWith("node:") && !PURE_NODE_MODULES.has(each))
      .map((each) => `${path} imports ${each}`)
  );
  assertEquals(modules, []);
});

Deno.test("an adapter says that it is one", () => {
  const adapters = SOURCES.filter(({ path }) => path !== "main.ts" && isAdapter(path));
  const silent = adapters.filter(({ text }) => !/^\/\*\*(?:\n \*)? (?:The a|A)dapter\b/.test(text));
  assertEquals(silent.map(({ path }) => path), []);
});

Deno.test("no list is spread into a call: V8 throws a RangeError for a long one", () => {
  const spread = /(?:\.(?:push|unshift|splice)|Math\.(?:max|min))\((?:[^{]*, )?\.\.\./;
  assertEquals(SOURCES.flatMap((file) => linesOf(file, spread)), []);
});

Deno.test("no module keeps state of its own", () => {
  assertEquals(SOURCES.flatMap((file) => linesOf(file, /^(?:export )?(?:let|var) /)), []);
});

/** The beginnings of all sets' names. */
const STEMS = Object.values(ROWS).flatMap(({ stems }) => Object.values(stems)).join("|");

/** A set's name as text, put together, or in a pattern. */
const SET_NAMES: readonly RegExp[] = [
  new RegExp(`["'\`@](?:${STEMS})(?:[46]\\b|-?\\$\\{|-(?:tcp|udp|sctp))`),
  new RegExp(`(?:startsWith|endsWith|includes|RegExp)\\(["'\`]\\W*(?:${STEMS})`),
  new RegExp(`[=(,?:!] ?/(?![/*])(?:\\\\.|[^/\n\\\\])*?(?<![\\w ])(?:${STEMS})(?![\\w ])`),
];

Deno.test("only the table of sets spells a set's name", () => {
  // The layers before the backends know no set.
  const others = /^lib\/(?:model|config|source|cache|policy)\//;
  const files = SOURCES.filter(({ path }) =>
    path !== "lib/backend/nftables/sets.ts" && !others.test(path)
  );
  assertEquals(files.flatMap((file) => SET_NAMES.flatMap((name) => linesOf(file, name))), []);
});

Deno.test("only the table of prefixes spells the names of a service port's iptables chains", () => {
  const files = SOURCES.filter(({ path }) => path !== "lib/backend/iptables/script/names.ts");
  const prefix = /KUBE-(?:SVC|SVL|EXT|FW|SEP)\b/;
  assertEquals(files.flatMap((file) => linesOf(file, prefix)), []);
});

Deno.test(`no file is longer than ${MAX_LINES} lines`, () => {
  const long = SOURCES.map(({ path, text }) => ({ path, lines: text.split("\n").length - 1 }))
    .filter(({ lines }) => lines > MAX_LINES);
  assertEquals(long, []);
});

Deno.test("every module begins with a comment that says its subject", () => {
  const silent = SOURCES.filter(({ text }) => !/^(?:#!.*\n)?\/\*\*/.test(text));
  assertEquals(silent.map(({ path }) => path), []);
});

Deno.test("a test is named after the file of lib that it tests", async () => {
  const { unit, system } = await findTestFiles(`${ROOT}/`);
  const rooms =
    /^tests\/(?!(?:e2e|support|fuzz|scripts|tools|docs|examples)\/)(.+)\/([^/]+)_test\.ts$/;
  const strays = [...unit, ...system].filter((path) => {
    const [, folder, name = ""] = rooms.exec(path) ?? [];
    if (folder === undefined) return false;
    const words = name.split("_");
    return !words.some((_, end) =>
      PATHS.has(`lib/${folder}/${words.slice(0, end + 1).join("_")}.ts`)
    );
  });
  assertEquals(strays, []);
});

/** Matches the name of a test: the first argument of `Deno.test`, `testCase` and the like. */
const TEST_NAME = /\b(?:\w*[tT]est\w*|step)\(\s*("(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`)/g;

Deno.test("no test's name is longer than 80 characters", async () => {
  const { unit, system } = await findTestFiles(`${ROOT}/`);
  const long = [...unit, ...system].flatMap((path) =>
    [...Deno.readTextFileSync(join(ROOT, path)).matchAll(TEST_NAME)]
      .map(([, name = ""]) => name.slice(1, -1).replace(/\$\{[^}]*\}/g, "nftables"))
      .filter((name) => name.length > 80).map((name) => `${path}: ${name}`)
  );
  assertEquals(long, []);
});

Deno.test("the tests of the pure folders are unit tests", async () => {
  const { unit, system } = await findTestFiles(`${ROOT}/`);
  const pure = /^tests\/(?:cache|config|explain|findings|policy|sync)\//;
  assertEquals(system.filter((path) => pure.test(path)), []);
  assertEquals(unit.includes("tests/policy/service_test.ts"), true);
  assertEquals(system.includes("tests/e2e/affinity_test.ts"), true);
});
