/** Follows changes of the node's nftables, transaction by transaction. */
import { Background } from "../support/background.ts";
import { eventually } from "../support/eventually.ts";
import type { Network } from "../support/network.ts";
import { NODE } from "../support/topology.ts";

/** `nft monitor`, from the moment at which it hears everything. */
export class NftMonitor implements AsyncDisposable {
  private constructor(private readonly program: Background) {}

  /** Starts it in the node. */
  static async start(network: Network): Promise<NftMonitor> {
    await using resources = new AsyncDisposableStack();
    const program = resources.use(
      new Background(["ip", "netns", "exec", network.namespaceOf(NODE), "nft", "monitor"]),
    );
    await eventually("nft monitor hears what happens", async () => {
      await network.applyNft("add table ip do-you-hear\ndelete table ip do-you-hear\n");
      return program.lines.some((line) => line.includes("do-you-hear"));
    });
    resources.move();
    return new NftMonitor(program);
  }

  /** The lines of each transaction so far, in order. */
  get transactions(): readonly (readonly string[])[] {
    const text = this.program.lines.map((line) => `${line}\n`).join("");
    // Behind the last end of a transaction another may be under way.
    return text.split(/^# new generation .*\n/m).slice(0, -1).map((each) => each.split("\n"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.program[Symbol.asyncDispose]();
  }
}
