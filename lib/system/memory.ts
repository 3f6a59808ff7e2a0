/**
 * Adapter: gives memory back to the machine when the daemon rests.
 * @module
 */
import type { Clock } from "../model/ports/ports.ts";

/** Milliseconds without work, after which the daemon rests. */
const REST = 1_000;

/**
 * Bytes of objects up to which memory is given back: it is done at one go, and twice, in 50 ms for so many. Above,
 * V8 collects in steps when little has been allocated for some 20 s (its memory reducer).
 */
const MOST = 30e6;

/** Bytes taken of the machine since the last time, from which on looking through all is worth it. */
const LEAST = 1.5e6;

/** The memory of V8. */
interface Heap {
  /** Bytes of objects, those that are unused among them. */
  readonly used: () => number;
  /** Bytes taken of the machine for them. */
  readonly taken: () => number;
  /** Collects at one go, as a process that is about to run out of memory. */
  readonly collect: () => void;
}

/** V8's own function: it is there with `--expose-gc`. */
type GarbageCollector = (options: {
  readonly type: "major";
  readonly execution: "sync";
  readonly flavor: "last-resort";
}) => void;

/** That of this process; `undefined` where V8 was not told to let it be collected, or is not there. */
export function v8Heap(): Heap | undefined {
  const { gc } = globalThis as { readonly gc?: GarbageCollector };
  return gc && {
    used: () => Deno.memoryUsage().heapUsed,
    taken: () => Deno.memoryUsage().heapTotal,
    collect: () => gc({ type: "major", execution: "sync", flavor: "last-resort" }),
  };
}

/** Work leaves memory behind, a full sync several times the size of its script: V8 would keep it for the next one. */
export class MemoryRelease {
  /** Pieces of work so far. */
  #pieces = 0;
  /** Bytes taken after the last collection. */
  #left = 0;

  /**
   * @param clock tells of rest
   * @param heap what is collected
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
