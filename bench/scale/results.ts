/**
 * The results of `deno task bench scale`, as data.
 *
 * @module
 */
import type { Peaks } from "../peaks.ts";
import type { Machine } from "../program.ts";
import type { Silence } from "./health_process.ts";

/** How big a cluster is. */
export interface Shape {
  readonly services: number;
  /** Endpoints of each Service. */
  readonly endpoints: number;
}

/** A start of the daemon. Milliseconds, bytes. */
export interface ScaleStart {
  /** From the start of the process until the kernel has what the API server has. */
  readonly total: number;
  /** The first sync: desired state, script, and the kernel taking it. A restart finds the table in place. */
  readonly sync: number;
  readonly peaks: Peaks;
}

/** A foreign change of one element. Milliseconds from the moment at which the kernel had it. */
export interface DriftTimes {
  readonly noticed: number;
  readonly repaired: number;
}

/** The result of the trial with the unit's own memory limit. */
export interface LimitResult {
  /** Bytes, as the unit has it. */
  readonly limit: number;
  /** 1 or 2: of the memory cgroup. */
  readonly version: 1 | 2;
  /** The most that daemon and nft had together, files' pages included. */
  readonly peak: number;
  /** Processes that the kernel killed. */
  readonly killed: number;
  /** The same of the first start alone. */
  readonly firstPeak: number;
  /** How far it came. */
  readonly done: "nothing" | "first sync" | "restart";
}

/** One shape. Milliseconds, bytes. */
export interface ScaleResult extends Shape {
  /** `nft -f` alone, on the same script, into an empty kernel. */
  readonly floor: { readonly time: number; readonly peak: number; readonly script: number };
  readonly first: ScaleStart;
  readonly restart: ScaleStart;
  /** Resident, at rest, after the changes and the first writing of the state file. */
  readonly steady: { readonly own: number; readonly children: number };
  readonly change: {
    readonly count: number;
    readonly p50: number;
    readonly p99: number;
    /** Milliseconds of CPU time for each change: signpost's, and that of the programs it runs. */
    readonly cpu: { readonly own: number; readonly children: number };
  };
  /** One after the other. */
  readonly drift: readonly DriftTimes[];
  /** The longest silences of the daemon's health server. */
  readonly silence: {
    readonly first: Silence;
    readonly restart: Silence;
    /** Of a full sync that finds the table as it should be. */
    readonly full: Silence;
  };
  /** Absent if it was not tried, or this machine has no memory cgroup that can be written. */
  readonly limit?: LimitResult;
}

/** A shape that could not be measured to its end. */
export interface FailedShape extends Shape {
  readonly reason: string;
}

/** A run. */
export interface ScaleResults {
  /** Commit, day and load average. */
  readonly sitting: string;
  readonly machine: Machine;
  /** How long all of it took. */
  readonly minutes: number;
  /** Bytes resident with one Service. */
  readonly base: number;
  readonly shapes: readonly ScaleResult[];
  readonly failed: readonly FailedShape[];
  /** Why no memory limit was tried; `""`: it was, or was not wanted. */
  readonly noLimit: string;
}
