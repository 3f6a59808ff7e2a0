/** A kernel of its own for iptables tests: a network namespace, and what it holds. */
import { IptablesDataplane } from "../../../lib/backend/iptables/dataplane.ts";
import type { Variant } from "../../../lib/backend/iptables/kernel/programs.ts";
import { parseSaved, type SavedTable } from "../../../lib/backend/iptables/kernel/saved.ts";
import { programName } from "../../../lib/backend/iptables/script/names.ts";
import { FAMILIES, type Family } from "../../../lib/model/values/address.ts";
import type { ProcessRunner, ProcessStreamer } from "../../../lib/model/ports/ports.ts";
import { run, runnerIn } from "../../support/command.ts";
import { denoStreamer } from "../../../lib/system/process.ts";
import { Libc } from "../../support/libc.ts";
import { Namespaces } from "../../support/namespaces.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";

/** Both backends, for tests that must hold for each. */
export const VARIANTS: readonly Variant[] = ["-nft", "-legacy"];

/** Builds a dataplane that writes both families with the system's own variant; `options` say otherwise. */
export function newDataplane(
  options:
    & Pick<DataplaneOptions, "runner">
    & Partial<DataplaneOptions & DataplaneOptions["iptables"]>,
): IptablesDataplane {
  const { variant = "", families = FAMILIES, ...rest } = options;
  return new IptablesDataplane({
    iptables: { variant, families, tcpBeLiberal: false },
    routeLocalnet: () => Promise.resolve(),
    ...rest,
  });
}

type DataplaneOptions = ConstructorParameters<typeof IptablesDataplane>[0];

/** One network namespace and one variant's rules in it. */
export class Kernel implements AsyncDisposable {
  readonly #prefix: readonly string[];
  readonly runner: ProcessRunner;
  readonly streamer: ProcessStreamer = {
    lines: (argv, signal) => denoStreamer.lines(["ip", ...this.#prefix.slice(1), ...argv], signal),
  };

  private constructor(
    readonly variant: Variant,
    private readonly libc: Libc,
    private readonly namespaces: Namespaces,
  ) {
    this.#prefix = ["ip", "netns", "exec", namespaces.fullName("kernel")];
    this.runner = runnerIn(namespaces.fullName("kernel"));
  }

  /** Makes the namespace. */
  static async create(variant: Variant): Promise<Kernel> {
    const libc = new Libc();
    return new Kernel(variant, libc, await Namespaces.create(libc, ["kernel"]));
  }

  /** Gives text to a family's restore program. */
  async restore(family: Family, text: string): Promise<void> {
    const program = programName(family, "-restore", this.variant);
    await run([...this.#prefix, program, "--noflush"], { stdin: text });
  }

  /** Returns the output of a family's save program, without comments. */
  async save(family: Family): Promise<string> {
    const text = await run([...this.#prefix, programName(family, "-save", this.variant)]);
    return text.replace(/^#.*\n/gm, "").replace(/\[\d+:\d+\]/g, "[0:0]");
  }

  /** Runs any program in the namespace. */
  async run(...argv: string[]): Promise<string> {
    return await run([...this.#prefix, ...argv]);
  }

  /** Empties all tables of both families. */
  async clear(): Promise<void> {
    await run([...this.#prefix, "nft", "flush", "ruleset"]);
    for (const family of FAMILIES) {
      const text = ["filter", "nat"].map((table) => `*${table}\nCOMMIT\n`).join("");
      const program = programName(family, "-restore", "-legacy");
      await run([...this.#prefix, program], { stdin: text });
    }
  }

  /** Rules that differ only in an order that does not matter are the same state. */
  async state(): Promise<string> {
    const saved = await Promise.all(FAMILIES.map((family) => this.save(family)));
    return saved.map((text) =>
      [...atOnce(parseSaved(text)).values()].map(normalise).sort().join("\n")
    )
      .join("\n");
  }

  /** @inheritdoc */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.namespaces[Symbol.asyncDispose]();
    this.libc[Symbol.dispose]();
  }
}

/** One table with its chains sorted, and in each chain the runs of rules of Services. */
function normalise(table: SavedTable): string {
  const lines = [`*${table.name}`, ...[...table.builtIn.keys()].sort()];
  for (const chain of [...table.chains.keys(), ...table.builtIn.keys()].sort()) {
    lines.push(`:${chain}`);
    const shared = !/^KUBE-(?:SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}$/.test(chain);
    const ordered = table.chains.get(chain) ?? table.builtIn.get(chain)?.rules ?? [];
    lines.push(...(shared ? sortRuns(ordered) : ordered));
  }
  return lines.join("\n");
}

function sortRuns(rules: readonly string[]): string[] {
  const runs: string[][] = [];
  let last: string | undefined;
  for (const rule of rules) {
    const kind = kindOf(rule);
    if (kind === last && kind !== "") runs.at(-1)?.push(rule);
    else runs.push([rule]);
    last = kind;
  }
  return runs.flatMap((run) => run.sort());
}

function kindOf(rule: string): string {
  if (/^(-[ds] \S+ )?-p |^-s \S+ -d \S+ .*-j (KUBE-MARK-MASQ|ACCEPT)$/.test(rule)) return "service";
  if (/^-d \S+ -j RETURN$/.test(rule)) return "own";
  if (rule.includes(" no such port")) return "guard";
  return "";
}
