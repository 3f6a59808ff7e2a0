/**
 * The edge to the program `nft`: runs scripts and says in one line what went wrong.
 *
 * @module
 */
import {
  ApplyError,
  type ApplyFailure,
  rethrowAsApplyError,
} from "../../model/kernel/dataplane.ts";
import {
  type Logger,
  type ProcessInput,
  type ProcessResult,
  type ProcessRunner,
  ProgramFailedError,
  type ProgramFailure,
  ProgramMissingError,
} from "../../model/ports/ports.ts";
import { unreadableTablesFinding } from "../../findings/system.ts";
import { TABLE } from "./table.ts";
import { CLOSE } from "./text.ts";
import { IPVS_TABLE } from "../ipvs_table.ts";
import { type TableSet, tableSet } from "./sets.ts";

/** A set or map, by the word that nft has for it. */
export type ListedSet = Pick<TableSet, "kind" | "name">;

/** Marks transactions as ours. */
interface Marking {
  /** Returns the commands that mark the next transaction. */
  next(): string;
  /** Notes that the kernel has taken it. */
  taken(): void;
}

/** The part of `nft` that signpost uses. JSON is not needed: some builds lack it. */
export class Nft {
  readonly #runner: ProcessRunner;
  readonly #marks: Marking | undefined;

  /** @param marks absent: transactions have no mark */
  constructor(runner: ProcessRunner, marks?: Marking) {
    this.#runner = runner;
    this.#marks = marks;
  }

  /**
   * Gives a script to the kernel, in one transaction without a mark.
   *
   * @throws {ApplyError} if the kernel or `nft` refuses it
   */
  async apply(script: string): Promise<void> {
    await this.#run(["nft", "-f", "-"], script);
  }

  /** Gives a script for our table to the kernel, as `apply` does, with a mark. */
  async commit(script: string): Promise<void> {
    await this.apply(script + this.#mark());
    this.#marks?.taken();
  }

  /**
   * Gives a long script to the kernel, in one transaction with a mark. From a path, `nft` works on each piece while the
   * next one is made. If it fails without an answer of the kernel, the path may be out of its reach: it gets all at once
   * then.
   *
   * @param pieces returns the pieces, from the beginning at each call
   * @throws {ApplyError} if the kernel or `nft` refuses it
   */
  async stream(pieces: () => Iterable<string> | AsyncIterable<string>): Promise<void> {
    const result = await this.#start(["nft", "-f", "/dev/fd/0"], this.#marked(pieces()));
    if (result.code !== 0 && !KERNEL_ANSWER.test(result.stderr)) {
      return await this.commit((await Array.fromAsync(pieces())).join(""));
    }
    await this.#seeSuccess(result);
    this.#marks?.taken();
  }

  /**
   * Gives a script to the kernel as `stream` does, when another step has ended. nft reads all but the last brace before.
   *
   * @throws also the error of the other step
   */
  async commitAfter(before: Promise<void>, script: string): Promise<void> {
    await this.stream(async function* () {
      yield script.slice(0, -CLOSE.length);
      await before;
      yield CLOSE;
    });
  }

  async *#marked(pieces: Iterable<string> | AsyncIterable<string>): AsyncGenerator<string> {
    yield* pieces;
    yield this.#mark();
  }

  #mark(): string {
    return this.#marks?.next() ?? "";
  }

  /**
   * Has the kernel check a script without taking it (nft(8), `--check`).
   *
   * @throws {ApplyError} where it would refuse it
   */
  async check(script: string): Promise<void> {
    await this.#run(["nft", "-c", "-f", "-"], script);
  }

  /**
   * Has the kernel check a script of one command a line without taking it.
   *
   * @returns the numbers of the lines that it refuses because what they create or add is there; from 1 on
   * @throws {ApplyError} if nft cannot be run
   */
  async existingLines(script: string): Promise<ReadonlySet<number>> {
    const { stderr } = await this.#start(["nft", "-c", "-f", "-"], script);
    const errors = stderr.matchAll(/^\S*:(\d+):\d+-\d+: Error: .*: File exists$/gm);
    return new Set([...errors].map(([, line]) => Number(line)));
  }

  /** The version that `nft --version` prints, such as `1.0.6`; `""` where it prints none. */
  async version(): Promise<string> {
    const { stdout } = await this.#run(["nft", "--version"]);
    return /v(\d+(?:\.\d+)+)/.exec(stdout)?.[1] ?? "";
  }

  /**
   * All sets of our table with their elements, as text; `""` where there is no table, or where nft
   * crashes on what another version of it has written.
   *
   * @throws {ApplyError} where nft is missing, or does not answer in time
   */
  async listSets(): Promise<string> {
    try {
      const result = await this.#start(["nft", "list", "sets", "table", ...TABLE.split(" ")]);
      return result.code === 0 ? result.stdout : "";
    } catch (error) {
      const { cause } = error instanceof ApplyError ? error : { cause: undefined };
      if (cause instanceof ProgramFailedError && ENDED.has(cause.failure)) return "";
      throw error;
    }
  }

  /**
   * One set or map of our table with its elements, as text; `""` where there is none. No other set's
   * elements are read; of this one, nft keeps 1.7 kB each.
   *
   * @throws {ApplyError} where the kernel does not let it be read
   */
  listSet({ kind, name }: ListedSet): Promise<string> {
    return this.#list([kind, ...TABLE.split(" "), name]);
  }

  /**
   * All of our table, as text; `""` where there is none.
   *
   * @throws {ApplyError} where the kernel does not let it be read
   */
  listTable(): Promise<string> {
    return this.#list(["table", ...TABLE.split(" ")]);
  }

  async #list(what: readonly string[]): Promise<string> {
    const result = await this.#start(["nft", "list", ...what]);
    if (result.code === 0) return result.stdout;
    const { failure, message } = classify(result.stderr);
    if (failure === "conflict") return "";
    throw new ApplyError(failure, message, { cause: result.stderr });
  }

  /**
   * All tables of the kernel, as `family name`. Not by `list tables`: nft 1.0.6 reads every element
   * of every table for that, and begins again whenever a transaction comes between.
   */
  async listTables(): Promise<readonly string[]> {
    return [...(await this.#chains()).keys()];
  }

  /**
   * Returns the tables on which this nft crashes. To delete a table, nft reads the sets of all tables
   * without their elements; only if it crashes on them, each table is listed alone.
   */
  async unreadableTables(): Promise<readonly string[]> {
    if (!await this.#crashes(["--check", "delete", "table", ...TABLE.split(" ")])) return [];
    const unreadable: string[] = [];
    for (const table of (await this.listTables()).slice(0, MOST_TABLES)) {
      const args = ["--terse", "list", "table", ...table.split(" ")];
      if (await this.#crashes(args)) unreadable.push(table);
    }
    return unreadable;
  }

  async #crashes(args: readonly string[]): Promise<boolean> {
    try {
      await this.#runner.run(["nft", ...args]);
      return false;
    } catch (error) {
      if (error instanceof ProgramFailedError) return error.failure === "crash";
      throw error;
    }
  }

  /** Lists the tables that packets meet: they have base chains. No element is read for it. */
  async listHookedTables(): Promise<readonly string[]> {
    const tables = [...await this.#chains()];
    return tables.filter(([, chains]) => /^\t\ttype \w+ hook /m.test(chains)).map(([table]) =>
      table
    );
  }

  /** Lists the chains of each table, without their rules. */
  async #chains(): Promise<ReadonlyMap<string, string>> {
    const { stdout } = await this.#run(["nft", "list", "chains"]);
    const tables = stdout.matchAll(/^table (\S+ \S+) \{\n([^]*?)^\}/gm);
    return new Map([...tables].map(([, table = "", chains = ""]) => [table, chains]));
  }

  /**
   * All chains, sets and maps of our table, with the number of their rules (0 for sets and maps);
   * empty where there is no table. Not by `list table`: nft 1.0.6 reads all elements for that,
   * `--terse` or not.
   */
  async ruleCounts(): Promise<ReadonlyMap<string, number>> {
    return new Map(
      [...await this.#structure()].map(([, kind, name = "", body = ""]) => [
        name,
        kind === "chain" ? body.match(/^\t\t(?!type \w+ hook )/gm)?.length ?? 0 : 0,
      ]),
    );
  }

  /** Our table without its elements, as text; `""` where there is none. No element is read for it. */
  async listStructure(): Promise<string> {
    const [family = ""] = TABLE.split(" ");
    return ourTable(await this.listRuleset(family));
  }

  /** Lists the rules of all tables, or of one family's. No element is read for it. */
  async listRuleset(family?: string): Promise<string> {
    const { stdout } = await this.#run([
      ...["nft", "-t", "list", "ruleset"] as const,
      ...family === undefined ? [] : [family],
    ]);
    return stdout;
  }

  /** The sets and maps of our table; none where there is no table. Elements are not read. */
  async listSetNames(): Promise<readonly ListedSet[]> {
    return [...await this.#structure()].flatMap(([, kind, name = ""]) =>
      kind === "set" || kind === "map" ? [{ kind, name }] : []
    );
  }

  /** Returns the devices of our flowtable; `undefined` if there is no flowtable. No element is read for it. */
  async listDevices(): Promise<readonly string[] | undefined> {
    const { name } = tableSet("fastPath", {});
    const text = await this.#list(["flowtable", ...TABLE.split(" "), name]);
    if (text === "") return undefined;
    const [, devices = ""] = /^\t\tdevices = \{ (.*) \}$/m.exec(text) ?? [];
    return devices.split(", ").map((each) => each.replaceAll('"', "")).filter((each) =>
      each !== ""
    );
  }

  /** The blocks of our table: kind, name and body. */
  async #structure(): Promise<Iterable<RegExpExecArray>> {
    const table = await this.listStructure();
    return table.matchAll(/^\t(chain|set|map|flowtable) (\S+) \{\n([^]*?)^\t\}/gm);
  }

  async #run(argv: readonly [string, ...string[]], stdin?: string): Promise<ProcessResult> {
    const result = await this.#start(argv, stdin);
    await this.#seeSuccess(result);
    return result;
  }

  /** @throws {ApplyError} if nft failed */
  async #seeSuccess({ code, stderr }: ProcessResult): Promise<void> {
    if (code === 0) return;
    const { failure, message } = classify(stderr);
    const owned = failure === "not-permitted" ? await this.#owned() : undefined;
    if (owned) throw new ApplyError("owned", owned, { cause: stderr });
    throw new ApplyError(failure, message, { cause: stderr });
  }

  /** Returns a line about the table of our name that another program holds for itself (nft(8), `flags owner`). */
  async #owned(): Promise<string | undefined> {
    const [family = ""] = TABLE.split(" ");
    const { stdout } = await this.#start(["nft", "-t", "list", "ruleset", family]);
    const [, table, program = "another one"] = OWNED.exec(stdout) ?? [];
    return table &&
      `the program ${program} owns the table ${table} (flags owner): end it, and the rules follow`;
  }

  async #unreadable(tables: readonly string[], cause: Error): Promise<ApplyError> {
    const { what, remedy } = unreadableTablesFinding(await this.version(), tables);
    return new ApplyError("unreadable", `${what}: ${remedy}`, { cause });
  }

  async #start(argv: readonly [string, ...string[]], stdin?: ProcessInput): Promise<ProcessResult> {
    try {
      return await this.#runner.run(argv, stdin);
    } catch (error) {
      if (error instanceof ProgramFailedError && error.failure === "crash") {
        const tables = await this.unreadableTables();
        if (tables.length > 0) throw await this.#unreadable(tables, error);
      }
      if (!(error instanceof ProgramMissingError)) return rethrowAsApplyError(error);
      throw new ApplyError(
        "program-missing",
        "the program nft cannot be run: install it (Debian, Ubuntu, Alpine, Fedora: package nftables) " +
          "and see that it is in the PATH of signpost",
        { cause: error },
      );
    }
  }
}

/** Tables that are tried one by one. */
const MOST_TABLES = 100;

/** The ends of an nft whose input, or the kernel's content, is too much. */
const ENDED: ReadonlySet<ProgramFailure> = new Set(["crash", "signal", "output"]);

/** The line of nft if the kernel refused something: nft has read the script to its end. */
const KERNEL_ANSWER = /Could not process rule/;

/** Failures that say nothing about what the kernel takes. */
const PROGRAM_FAILURES: ReadonlySet<ApplyFailure> = new Set([
  "program-missing",
  "program-failed",
  "unreadable",
  "not-permitted",
  "owned",
]);

/** Returns true if nft ended and gave the kernel's refusal. */
export function isRefusal(error: unknown): error is ApplyError {
  return error instanceof ApplyError && !PROGRAM_FAILURES.has(error.failure);
}

/** Our table, or that of the probe, with the name of the program that owns it. */
const OWNED = new RegExp(
  `^table (${TABLE}(?:-probe)?) \\{(?: # progname ([^\\n]{1,15}))?\\n\\tflags [^\\n]*\\bowner\\b`,
  "m",
);

/** Returns our table's part of a listing of all tables; `""` if there is none. */
function ourTable(listing: string): string {
  return listing.split(/^(?=table )/m).find((each) => each.startsWith(`table ${TABLE} {`)) ?? "";
}

/** Ordered: the first pattern that matches nft's stderr names the failure. */
const FAILURES: readonly (readonly [RegExp, ApplyFailure, string])[] = [
  [
    /Operation not permitted|you must be root/,
    "not-permitted",
    "the kernel refuses: signpost needs CAP_NET_ADMIN (run it as root, or as its systemd unit does)",
  ],
  [
    /Operation not supported|Protocol not supported|Protocol error|syntax error|Invalid argument/,
    "not-supported",
    "this kernel or this nft does not know something that the rules use",
  ],
  [
    /No such file or directory|File exists/,
    "conflict",
    "the table is not as signpost left it (another program changed it), or a kernel module is missing",
  ],
  [
    /Message too long/,
    "not-permitted",
    "the kernel gives this user namespace too small a socket buffer: set net.core.wmem_max on the host to 16777216",
  ],
  // Where something is missing, what refers to it is busy as well: that alone says little.
  [/Device or resource busy|Resource temporarily unavailable/, "busy", "the kernel is busy"],
];

/** The failure that nft's stderr tells of, and one line for the user. */
export function classify(stderr: string): {
  readonly failure: ApplyFailure;
  readonly message: string;
} {
  const line = stderr.split("\n").find((each) => each.includes("Error:"))?.trim() ??
    stderr.split("\n")[0]?.trim() ?? "";
  const said = `nft said: ${line.slice(0, 200) || "nothing"}`;
  for (const [pattern, failure, message] of FAILURES) {
    if (pattern.test(stderr)) return { failure, message: `${message}; ${said}` };
  }
  return { failure: "unknown", message: `nft failed; ${said}` };
}

/** Returns the output of a reading; `""` if nft fails: a table that cannot be read is written again. */
export async function readable(read: () => Promise<string>): Promise<string> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof ApplyError) return "";
    throw error;
  }
}

/** kube-proxy's tables in nftables mode (KEP-3866). */
export const KUBE_PROXY_TABLES: readonly string[] = ["ip kube-proxy", "ip6 kube-proxy"];

/** The table of `signpost explain --trace`, which is there for a second. */
export const TRACE_TABLE = "inet trace-signpost";

/** The tables that signpost makes; that of a trace stays only where it was killed. */
export const OWN_TABLES: readonly string[] = [TABLE, TRACE_TABLE, IPVS_TABLE];

/**
 * The commands that delete those of some tables that are there.
 *
 * @throws {ApplyError} where the tables cannot be listed
 */
export async function deleteTables(nft: Nft, tables: readonly string[]): Promise<string> {
  const present = new Set(await nft.listTables());
  return tables.filter((table) => present.has(table))
    .map((table) => `delete table ${table}\n`).join("");
}

/**
 * Deletes those of some tables that are there. An nft that crashes on another program's table can delete
 * none, but it can flush them: their rules go, and empty tables stay.
 *
 * @returns the commands that the kernel took
 * @throws {ApplyError} if it took none
 */
export async function removeTables(
  nft: Nft,
  { tables, logger }: { readonly tables: readonly string[]; readonly logger: Logger },
): Promise<string> {
  const script = await deleteTables(nft, tables);
  if (script === "") return "";
  try {
    await nft.apply(script);
    return script;
  } catch (error) {
    if (!(error instanceof ApplyError) || error.failure !== "unreadable") throw error;
    const flushes = script.replaceAll("delete table", "flush table");
    await nft.apply(flushes);
    logger.warn("tables cannot be deleted: their rules are flushed, and empty tables stay", {
      error: error.message,
    });
    return flushes;
  }
}
