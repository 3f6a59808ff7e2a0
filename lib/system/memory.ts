/**
 * Adapter: gives memory back to the machine when the daemon rests.
 * @module
 */
import type { Clock } from "../model/ports/ports.ts";

/** Milliseconds without work, after which the daemon rests. */
const REST = 1_000;

/**
 * Bytes of objects up to which memory is given back. V8 then collects twice without a break, which takes 50 ms. Above,
 * V8 collects in steps after about 20 s with few allocations (its memory reducer).
 */
const MOST = 30e6;

/** Bytes that V8 must have taken since the last collection to make another one worth it. */
const LEAST = 1.5e6;

/** The memory of V8. */
interface Heap {
  /** Returns the bytes of objects, unused ones included. */
  readonly used: () => number;
  /** Returns the bytes of the machine that V8 holds for them. */
  readonly taken: () => number;
  /** Collects without a break, like a process that is about to run out of memory. */
  readonly collect: () => void;
}

/** V8's own function: it is there with `--expose-gc`. */
type GarbageCollector = (options: {
  readonly type: "major";
  readonly execution: "sync";
  readonly flavor: "last-resort";
}) => void;

/** Returns the heap of this process; `undefined` without `--expose-gc`. */
export function v8Heap(): Heap | undefined {
  const { gc } = globalThis as { readonly gc?: GarbageCollector };
  return gc && {
    used: () => Deno.memoryUsage().heapUsed,
    taken: () => Deno.memoryUsage().heapTotal,
    collect: () => gc({ type: "major", execution: "sync", flavor: "last-resort" }),
  };
}

/** Gives memory back after work. A full sync leaves several times the size of its script, which V8 would keep. */
export class MemoryRelease {
  /** Pieces of work so far. */
  #pieces = 0;
  /** Bytes taken after the last collection. */
  #left = 0;

  /**
   * @param clock measures the rest
   * @param heap the heap to collect
   */
  constructor(private readonly clock: Clock, private readonly heap: Heap) {}

  /** See `Runtime.releaseMemory`. */
  after(work: "small" | "large", signal: AbortSignal): void {
    const piece = ++this.#pieces;
    void this.clock.sleep(REST, signal).then(() => {
      if (!signal.aborted && (work === "large" || piece === this.#pieces)) this.#release();
    });
  }

  #release(): void {
    const { heap } = this;
    if (heap.used() > MOST || heap.taken() < this.#left + LEAST) return;
    heap.collect();
    this.#left = heap.taken();
  }
}
