/**
 * What changes in the node's nftables, transaction by transaction.
 *
 * @module
 */
import { eventually } from "../support/eventually.ts";
import type { Network } from "../support/network.ts";
import { NODE } from "../support/topology.ts";

/** `nft monitor`, from the moment at which it hears everything. */
export class NftMonitor implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  #text = "";

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#reading = this.#read(child.stdout);
  }

  /** Starts it in the node. */
  static async start(network: Network): Promise<NftMonitor> {
    await using resources = new AsyncDisposableStack();
    const child = new Deno.Command("ip", {
      args: ["netns", "exec", network.namespaceOf(NODE), "nft", "monitor"],
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const monitor = resources.use(new NftMonitor(child));
    await eventually("nft monitor hears what happens", async () => {
      await network.applyNft("add table ip do-you-hear\ndelete table ip do-you-hear\n");
      return monitor.#text.includes("do-you-hear");
    });
    resources.move();
    return monitor;
  }

  /** The lines of each transaction so far, in order. */
  get transactions(): readonly (readonly string[])[] {
    const texts = this.#text.split(/^# new generation .*\n/m);
    // Behind the last end of a transaction another may be under way.
    return texts.slice(0, -1).map((text) => text.split("\n"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGTERM");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    await this.#child.status;
    await this.#reading;
  }

  async #read(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of stream) this.#text += decoder.decode(chunk, { stream: true });
  }
}
