/** Adapter: gives memory back to the machine when the daemon rests. */
import type { Clock } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";

/** Milliseconds without work until memory is given back. */
const REST = 1_000;

/** Bytes of objects up to which memory is given back, in 50 ms. Above, V8's memory reducer does it in small steps. */
const MOST = 30e6;

/** Bytes taken since the last collection that make another one worth it. */
const LEAST = 1.5e6;

interface Heap {
  /** Returns the bytes of objects, unused ones included. */
  readonly used: () => number;
  /** Returns the bytes of the machine that V8 holds for them. */
  readonly taken: () => number;
  readonly collect: () => void;
}

/** Returns the heap of this process; `undefined` without `--expose-gc`. */
export function v8Heap(): Heap | undefined {
  const { gc } = globalThis as {
    readonly gc?: (options: Readonly<Record<"type" | "execution" | "flavor", string>>) => void;
  };
  return gc && {
    used: () => Deno.memoryUsage().heapUsed,
    taken: () => Deno.memoryUsage().heapTotal,
    collect: () => gc({ type: "major", execution: "sync", flavor: "last-resort" }),
  };
}

/** Gives memory back after work: a small heap never has so much garbage that V8 itself would look for it. */
export function memoryRelease(clock: Clock, heap: Heap): Runtime["releaseMemory"] {
  let pieces = 0;
  /** Bytes taken after the last collection. */
  let left = 0;
  return (signal) => {
    const piece = ++pieces;
    void clock.sleep(REST, signal).then(() => {
      if (signal.aborted || piece !== pieces) return;
      if (heap.used() > MOST || heap.taken() < left + LEAST) return;
      heap.collect();
      left = heap.taken();
    });
  };
}
