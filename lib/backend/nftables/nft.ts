/** Runs the program `nft`, and reports failures in one line. */
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
import { finding } from "../../findings/catalog.ts";
import type { Finding } from "../../model/status.ts";
import { LAST_CHAIN } from "./layout.ts";
import { TABLE, TABLE_WORDS } from "./table.ts";
import { CLOSE, OPEN, printSet } from "./text.ts";
import { IPVS_TABLE } from "../ipvs_table.ts";
import { ROWS, type TableSet, tableSet } from "./sets.ts";

export type ListedSet = Pick<TableSet, "kind" | "name">;

/** The set of the marks. */
export const TRANSACTIONS = tableSet("transactions", {});

/** The time until a mark expires. After a deletion, nft would wait 10 ms for the kernel's clean-up. */
const TIMEOUT = "10ms";

/** Numbers our own transactions. Transactions that the kernel took have consecutive numbers. */
export class Marks {
  #next: number;
  /** True while nft may be applying a script with the next number. */
  #isGiven = false;

  /** @param first random, so that other processes use other numbers */
  constructor(private readonly first: number) {
    this.#next = first;
  }

  /** Returns the block that marks our next transaction. A refused transaction's number is used again. */
  next(): string {
    const mark = this.#next.toString(16);
    this.#isGiven = true;
    return `${OPEN}${printSet(TRANSACTIONS, [`      0x${mark} timeout ${TIMEOUT}`])}${CLOSE}`;
  }

  taken(): void {
    if (this.#isGiven) this.#next++;
    this.#isGiven = false;
  }

  /** The mark of the last transaction that the kernel took; before the first transaction, the number before it. */
  get last(): number {
    return this.#next - 1;
  }

  /** Returns true for a mark of ours. The monitor may report it before nft has ended. */
  isOwn(mark: number): boolean {
    return mark >= this.first && (mark < this.#next || (this.#isGiven && mark === this.#next));
  }
}

/**
 * Runs the commands of `nft` that signpost uses, without JSON, which some builds lack. The methods throw
 * `ApplyError`. With `-y`, nft prints priorities as numbers, which have names in some families and versions.
 */
export class Nft {
  /** Waits for the next script, until the abort of `#kept`. */
  #ready: ReadyNft | undefined;
  #kept: AbortSignal | undefined;

  constructor(
    private readonly runner: ProcessRunner,
    private readonly marks?: Pick<Marks, "next" | "taken">,
  ) {}

  /** Gives a script to the kernel, in one transaction without a mark. */
  async apply(script: string): Promise<void> {
    await this.#run(APPLY, script);
  }

  /** Gives a script for our table to the kernel, as `apply` does, with a mark. */
  async commit(script: string): Promise<void> {
    const limit = limitOf(script);
    await this.#run(limit === "" ? APPLY : READY, script + this.#mark() + limit);
    this.marks?.taken();
  }

  /** Keeps an nft started for the next script until the abort. The start takes 2 of 11 ms of a lone change. */
  keepReady(signal: AbortSignal): void {
    // An earlier abort would not fire the event.
    if (signal.aborted) return;
    this.#kept = signal;
    this.#ready = new ReadyNft(this.runner);
    signal.addEventListener("abort", () => this.#ready?.run("").catch(() => {}), { once: true });
  }

  /**
   * Streams a long script in one marked transaction. From a path, nft reads pieces while signpost makes them.
   * @param pieces begins again at each call: an nft that cannot read the path gets all pieces at once
   * @param limit commands for the end, see `limitOf`
   */
  async stream(
    pieces: () => Iterable<string> | AsyncIterable<string>,
    limit = "",
  ): Promise<void> {
    const input = this.#marked(pieces(), limit);
    const terse = limit === "" ? [] : ["-t"];
    const result = await this.#start(["nft", ...terse, "-f", "/dev/fd/0"], input);
    if (result.code !== 0 && !KERNEL_ANSWER.test(result.stderr)) {
      return await this.commit((await Array.fromAsync(pieces())).join(""));
    }
    await this.#seeSuccess(result);
    this.marks?.taken();
  }

  /** Gives a script to the kernel after a step, whose error it throws. nft reads all but the last brace before. */
  async commitAfter(before: Promise<void>, script: string): Promise<void> {
    await this.stream(async function* () {
      yield script.slice(0, -CLOSE.length);
      await before;
      yield CLOSE;
    }, limitOf(script));
  }

  async *#marked(
    pieces: Iterable<string> | AsyncIterable<string>,
    limit: string,
  ): AsyncGenerator<string> {
    yield* pieces;
    yield this.#mark() + limit;
  }

  #mark(): string {
    return this.marks?.next() ?? "";
  }

  /** Checks a script in the kernel without applying it (nft(8), `--check`). */
  async check(script: string): Promise<void> {
    await this.#run(["nft", "-c", "-f", "-"], script);
  }

  /** Checks a command on each line. @returns the numbers, from 1, of the lines whose object exists in the kernel */
  async existingLines(script: string): Promise<ReadonlySet<number>> {
    const { stderr } = await this.#start(["nft", "-c", "-f", "-"], script);
    const errors = stderr.matchAll(/^\S*:(\d+):\d+-\d+: Error: .*: File exists$/gm);
    return new Set([...errors].map(([, line]) => Number(line)));
  }

  /** Returns the version, such as `1.0.6`; `""` if nft prints none. */
  async version(): Promise<string> {
    const { stdout } = await this.#run(["nft", "--version"]);
    return /v(\d+(?:\.\d+)+)/.exec(stdout)?.[1] ?? "";
  }

  /** Returns the sets with their elements; `""` without a table, or if nft crashes on what another version wrote. */
  async listSets(): Promise<string> {
    try {
      const result = await this.#start(["nft", "list", "sets", "table", ...TABLE_WORDS]);
      return result.code === 0 ? result.stdout : "";
    } catch (error) {
      const { cause } = error instanceof ApplyError ? error : { cause: undefined };
      if (cause instanceof ProgramFailedError && ENDED.has(cause.failure)) return "";
      throw error;
    }
  }

  /** Returns a set or map with its elements, of which nft keeps 1.7 kB each; `""` if it does not exist. */
  listSet({ kind, name }: ListedSet): Promise<string> {
    return this.#list([kind, ...TABLE_WORDS, name]);
  }

  /** Returns the table; `""` if it does not exist. */
  listTable(): Promise<string> {
    return this.#list(["table", ...TABLE_WORDS]);
  }

  async #list(what: readonly string[]): Promise<string> {
    const result = await this.#start(["nft", "-y", "list", ...what]);
    if (result.code === 0) return result.stdout;
    const { failure, message } = classify(result.stderr);
    if (failure === "conflict") return "";
    throw new ApplyError(failure, message, { cause: result.stderr });
  }

  async listChainNames(): Promise<ReadonlyMap<string, readonly string[]>> {
    const names = (chains: string) =>
      [...chains.matchAll(/^\tchain (\S+) \{/gm)].map(([, name = ""]) => name);
    return new Map([...await this.#chains()].map(([table, chains]) => [table, names(chains)]));
  }

  /** Lists one chain; `""` if it does not exist. */
  listChain(table: string, chain: string): Promise<string> {
    return this.#list(["chain", ...table.split(" "), chain]);
  }

  /** Lists tables as `family name`. `list tables` of nft 1.0.6 reads all elements, again after each transaction. */
  async listTables(): Promise<readonly string[]> {
    return [...(await this.#chains()).keys()];
  }

  /** Finds tables on which nft crashes. It lists each table alone only if a deletion, which reads all sets, crashes. */
  async findUnreadable(): Promise<Finding | undefined> {
    if (!await this.#crashes(["--check", "delete", "table", ...TABLE_WORDS])) return undefined;
    const unreadable: string[] = [];
    for (const table of (await this.listTables()).slice(0, MOST_TABLES)) {
      const args = ["--terse", "list", "table", ...table.split(" ")];
      if (await this.#crashes(args)) unreadable.push(`table ${table}`);
    }
    if (unreadable.length === 0) return undefined;
    const where = unreadable.join(", ");
    const what = `nft ${await this.version()} crashes on ${where}, so signpost cannot write rules`;
    return finding("nft-crashes", { what, where });
  }

  async #crashes(args: readonly string[]): Promise<boolean> {
    try {
      await this.runner.run(["nft", ...args]);
      return false;
    } catch (error) {
      if (error instanceof ProgramFailedError) return error.failure === "crash";
      throw error;
    }
  }

  /** Lists the tables that packets meet: they have base chains. */
  async listHookedTables(): Promise<readonly string[]> {
    const tables = [...await this.#chains()];
    return tables.filter(([, chains]) => /^\t\ttype \w+ hook /m.test(chains)).map(([table]) =>
      table
    );
  }

  async #chains(): Promise<ReadonlyMap<string, string>> {
    const { stdout } = await this.#run(["nft", "list", "chains"]);
    const tables = stdout.matchAll(/^table (\S+ \S+) \{(?: #.*)?\n([^]*?)^\}/gm);
    return new Map([...tables].map(([, table = "", chains = ""]) => [table, chains]));
  }

  /** Returns the table without elements, which nft then does not read; `""` without a table. */
  async listStructure(): Promise<string> {
    const listing = await this.listRuleset(TABLE_WORDS[0]);
    return listing.split(/^(?=table )/m).find((each) => each.startsWith(`table ${TABLE} {`)) ?? "";
  }

  /** Lists the rules of all tables or of one family, without elements. */
  async listRuleset(family?: string): Promise<string> {
    const { stdout } = await this.#run([
      ...["nft", "-y", "-t", "list", "ruleset"] as const,
      ...family === undefined ? [] : [family],
    ]);
    return stdout;
  }

  async listTerse(table: string): Promise<string> {
    return (await this.#run(["nft", "-y", "-t", "list", "table", ...table.split(" ")])).stdout;
  }

  async listSetNames(): Promise<readonly ListedSet[]> {
    const sets = (await this.listStructure()).matchAll(/^\t(\w+) (\S+) \{$/gm);
    return [...sets].flatMap(([, kind, name = ""]) =>
      kind === "set" || kind === "map" ? [{ kind, name }] : []
    );
  }

  /** Returns the devices of the flowtable; `undefined` without a flowtable. */
  async listDevices(): Promise<readonly string[] | undefined> {
    const { name } = tableSet("fastPath", {});
    const text = await this.#list(["flowtable", ...TABLE_WORDS, name]);
    if (text === "") return undefined;
    const [, devices = ""] = /^\t\tdevices = \{ (.*) \}$/m.exec(text) ?? [];
    return devices.split(", ").map((each) => each.replaceAll('"', "")).filter((each) =>
      each !== ""
    );
  }

  async #run(argv: readonly [string, ...string[]], stdin?: string): Promise<ProcessResult> {
    const result = await this.#start(argv, stdin);
    await this.#seeSuccess(result);
    return result;
  }

  async #seeSuccess({ code, stderr }: ProcessResult): Promise<void> {
    if (code === 0) return;
    const { failure, message } = classify(stderr);
    const owned = MAY_BE_OWNED.has(failure) ? await this.#owned() : undefined;
    if (owned) throw new ApplyError("owned", owned, { cause: stderr });
    throw new ApplyError(failure, message, { cause: stderr });
  }

  /** Names the program that holds a table of our name for itself (nft(8), `flags owner`). */
  async #owned(): Promise<string | undefined> {
    const { stdout } = await this.#start(["nft", "-t", "list", "ruleset", TABLE_WORDS[0]]);
    const [, table, program = "with an unknown name"] = OWNED.exec(stdout) ?? [];
    return table &&
      `the program ${program} owns the table ${table} (flags owner): end that program, and signpost writes its rules`;
  }

  #launch(argv: readonly [string, ...string[]], stdin?: ProcessInput): Promise<ProcessResult> {
    if (argv !== READY || typeof stdin !== "string") return this.runner.run(argv, stdin);
    const ready = this.#ready;
    this.#ready = undefined;
    const result = ready?.hasFailed === false ? ready.run(stdin) : this.runner.run(argv, stdin);
    return result.finally(() => {
      if (this.#kept?.aborted === false) this.#ready ??= new ReadyNft(this.runner);
    });
  }

  async #start(argv: readonly [string, ...string[]], stdin?: ProcessInput): Promise<ProcessResult> {
    try {
      return await this.#launch(argv, stdin);
    } catch (error) {
      if (error instanceof ProgramFailedError && error.failure === "crash") {
        const found = await this.findUnreadable();
        if (found) {
          throw new ApplyError("unreadable", `${found.what}: ${found.remedy}`, { cause: error });
        }
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

const APPLY = ["nft", "-f", "-"] as const;
const READY = ["nft", "-t", "-f", "-"] as const;

/** A started nft that waits for its script. */
class ReadyNft {
  readonly #script = Promise.withResolvers<string>();
  readonly #result: Promise<ProcessResult>;
  hasFailed = false;

  constructor(runner: ProcessRunner) {
    const { promise } = this.#script;
    const input = async function* () {
      yield await promise;
    };
    this.#result = runner.run(READY, input());
    this.#result.catch(() => this.hasFailed = true);
  }

  run(script: string): Promise<ProcessResult> {
    this.#script.resolve(script);
    return this.#result;
  }
}

/** Matches commands before which nft reads the elements of all interval sets, whatever their table. */
const READS_SETS = new RegExp(`^\\w+ element ${TABLE} `, "m");
/** Matches commands for which nft needs the elements of our own interval sets. */
const NEEDS_OWN = new RegExp(`^\\w+ element ${TABLE} ${ROWS.serviceCIDRs.stems.all}`, "m");

/**
 * Returns commands for the end of a script. With them and `-t`, nft reads our table alone, without elements. The
 * first command, which prints nothing, makes 1.0.6 leave out elements; the last command selects the table.
 */
function limitOf(script: string): string {
  return READS_SETS.test(script) && !NEEDS_OWN.test(script)
    ? `list ruleset arp\nlist chain ${TABLE} ${LAST_CHAIN}\n`
    : "";
}

const MOST_TABLES = 100;

/** Failures of an nft whose input, or whose reading of the kernel, is too large. */
const ENDED: ReadonlySet<ProgramFailure> = new Set(["crash", "signal", "output"]);

/** Matches the error of an nft that read the script to its end. */
const KERNEL_ANSWER = /Could not process rule/;

/** Failures by which the kernel refuses a script. The remaining failures do not depend on the script. */
const REFUSALS: ReadonlySet<ApplyFailure> = new Set([
  "not-supported",
  "conflict",
  "busy",
  "unknown",
]);

/** Returns true if nft reported that the kernel refused the script. */
export function isRefusal(error: unknown): error is ApplyError {
  return error instanceof ApplyError && REFUSALS.has(error.failure);
}

/** Failures at an owned table. Hundreds of refusals overflow nft's socket, and it reports ENOBUFS alone. */
const MAY_BE_OWNED: ReadonlySet<ApplyFailure> = new Set(["not-permitted", "unknown"]);

/** Matches our table, or the probe's table, with the name of the program that owns it. */
const OWNED = new RegExp(
  `^table (${TABLE}(?:-probe)?) \\{(?: # progname ([^\\n]{1,15}))?\\n\\tflags [^\\n]*\\bowner\\b`,
  "m",
);

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
  // Last: an object that refers to a missing object is busy as well.
  [/Device or resource busy|Resource temporarily unavailable/, "busy", "the kernel is busy"],
];

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

/** Returns the output of a reading; `""` if nft fails: an unreadable table is written again. */
export async function outputOrEmpty(read: () => Promise<string>): Promise<string> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof ApplyError) return "";
    throw error;
  }
}

/** kube-proxy's tables in nftables mode (KEP-3866). */
export const KUBE_PROXY_TABLES: readonly string[] = ["ip kube-proxy", "ip6 kube-proxy"];

/** The table of `signpost explain --trace`, which exists for a second. */
export const TRACE_TABLE = "inet trace-signpost";

/** The tables that signpost makes. A trace leaves its table only if it is killed. */
export const OWN_TABLES: readonly string[] = [TABLE, TRACE_TABLE, IPVS_TABLE];

/** Returns the commands that delete the tables, as far as they exist. @throws {ApplyError} if nft cannot list them */
export async function deleteTables(nft: Nft, tables: readonly string[]): Promise<string> {
  const present = new Set(await nft.listTables());
  return tables.filter((table) => present.has(table))
    .map((table) => `delete table ${table}\n`).join("");
}

/**
 * Deletes tables, or flushes them: an nft that crashes on another program's table cannot delete.
 * @returns the commands that the kernel took @throws {ApplyError} if it took none
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
