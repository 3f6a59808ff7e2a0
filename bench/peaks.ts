/**
 * The largest memory that processes ever had, looked at while they run.
 *
 * @module
 */
import { childrenOf } from "./processes.ts";

/** Bytes: resident sets at their largest. */
export interface Peaks {
  readonly own: number;
  /** Of the programs that it ran, the largest one. */
  readonly child: number;
}

/** Milliseconds between two looks: the kernel keeps the peak, so only a child's last growth is missed. */
const INTERVAL = 15;

/** Follows a process and its children until it is disposed. */
export class PeakWatch implements AsyncDisposable {
  #own = 0;
  #child = 0;
  #stopped = false;
  readonly #running: Promise<void>;

  /** @param pid the process, which may end meanwhile */
  constructor(private readonly pid: number) {
    this.#running = this.#run();
  }

  /** So far. */
  get peaks(): Peaks {
    return { own: this.#own, child: this.#child };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      this.#own = Math.max(this.#own, (await readPeak(this.pid)).bytes);
      for (const child of await childrenOf(this.pid).catch(() => [])) {
        const { name, bytes } = await readPeak(child);
        // A child that has not become another program yet shows its parent's memory.
        if (PROGRAMS.test(name)) this.#child = Math.max(this.#child, bytes);
      }
      await new Promise((resolve) => setTimeout(resolve, INTERVAL));
    }
  }
}

/** The programs that signpost runs to write rules. */
const PROGRAMS = /^(nft|x?ip6?tables)/;

/** 0 of a process that has ended. */
async function readPeak(pid: number): Promise<{ readonly name: string; readonly bytes: number }> {
  const text = await Deno.readTextFile(`/proc/${pid}/status`).catch(() => "");
  return {
    name: /^Name:\s+(.*)$/m.exec(text)?.[1] ?? "",
    bytes: Number(/^VmHWM:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * 1024,
  };
}
