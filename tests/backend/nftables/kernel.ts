/** A network namespace with nothing but nftables in it. */
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { type Contents, NO_CONTENTS, parsingListing } from "../../../lib/backend/nftables/read.ts";
import { denoStreamer } from "../../../lib/system/process.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import type { ProcessRunner, ProcessStreamer } from "../../../lib/model/ports/ports.ts";
import { run, runnerIn } from "../../support/command.ts";
import { Libc } from "../../support/libc.ts";
import { Namespaces } from "../../support/namespaces.ts";

/** The kernel's nftables, for one test. */
export class Kernel implements AsyncDisposable {
  readonly #libc: Libc;
  readonly #namespaces: Namespaces;
  /** The command that leads into the namespace. */
  readonly prefix: readonly string[];
  /** Runs programs in the namespace. */
  readonly runner: ProcessRunner;
  /** The program `nft` in the namespace. */
  readonly nft: Nft;

  private constructor(libc: Libc, namespaces: Namespaces) {
    this.#libc = libc;
    this.#namespaces = namespaces;
    this.prefix = ["ip", "netns", "exec", namespaces.fullName("kernel")];
    this.runner = runnerIn(namespaces.fullName("kernel"));
    this.nft = new Nft(this.runner);
  }

  /** Makes the namespace. */
  static async create(): Promise<Kernel> {
    const libc = new Libc();
    return new Kernel(libc, await Namespaces.create(libc, ["kernel"]));
  }

  /** Follows programs in the namespace. */
  readonly streamer: ProcessStreamer = {
    lines: (argv, signal) => denoStreamer.lines(["ip", ...this.prefix.slice(1), ...argv], signal),
  };

  /** Lists the table, and reads the listing. @returns `undefined` if there is no table */
  async contents(): Promise<Contents | undefined> {
    return atOnce(parsingListing(await this.nft.listTable()));
  }

  /** Returns the number of rules of each chain; 0 for each set and map. */
  async ruleCounts(): Promise<ReadonlyMap<string, number>> {
    const { sets, chains } = atOnce(parsingListing(await this.nft.listStructure())) ?? NO_CONTENTS;
    const isRule = (line: string) => !/^type \w+ hook /.test(line);
    return new Map([
      ...[...sets.keys()].map((name) => [name, 0] as const),
      ...[...chains].map(([name, lines]) => [name, lines.filter(isRule).length] as const),
    ]);
  }

  /** Runs a script as another program would, which must succeed. */
  async script(text: string): Promise<void> {
    await run([...this.prefix, "nft", "-f", "-"], { stdin: text });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#namespaces[Symbol.asyncDispose]();
    this.#libc[Symbol.dispose]();
  }
}
