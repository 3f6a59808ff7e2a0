/**
 * Lists the steps of each machine, and their results.
 *
 * @module
 */
import { isWithoutIpv6, type MachineRun, type SolePart } from "./catalog.ts";

/** The ways of rules into the kernel. */
export const BACKENDS = ["nftables", "iptables", "iptables-legacy"] as const;

/** Names a way into the kernel. */
export type Backend = typeof BACKENDS[number];

/** Parts of the daemon's life, in their order. */
export const LIFE_PARTS = ["start", "drift", "restart", "cleanup"] as const;

/** Names a part of the daemon's life. */
export type LifePart = typeof LIFE_PARTS[number];

/** The recorded packet flows, and the daemon's life. */
export const PARTS = ["flows", ...LIFE_PARTS] as const;

/** Names a part of a run. */
export type Part = typeof PARTS[number] | SolePart;

/** One thing that is tried. */
export interface Step {
  readonly backend: Backend;
  readonly part: Part;
}

/** The result of a step. */
export interface StepResult extends Step {
  readonly passed: boolean;
  /** `52/52` of flows; what was wrong elsewhere. */
  readonly detail: string;
  /** Seconds. */
  readonly seconds: number;
  /** False: the machine had ended before. */
  readonly isTried?: false;
}

/** The facts that a machine reports about itself. */
export interface MachineFacts {
  /** As `uname -r` prints it. */
  readonly release: string;
  /** As `nft --version` prints it. */
  readonly nft: string;
  /** Seconds from the kernel's start to the first program. */
  readonly boot: number;
}

/** One run of the table. */
export interface RunResult {
  readonly name: string;
  readonly note: string;
  /** Of the kernel's package. */
  readonly version: string;
  readonly facts?: MachineFacts;
  readonly steps: readonly StepResult[];
  /** Seconds. */
  readonly seconds: number;
  /** The report of the steps, for people. */
  readonly report?: string;
  /** The reason why it did not run. */
  readonly leftOut?: string;
}

/**
 * Returns the steps of a run.
 *
 * @param wanted the run leaves out backends that it cannot try
 */
export function stepsOf(
  run: MachineRun,
  wanted: readonly Backend[],
): Step[] {
  // The namespaces of the recorded flows have IPv6.
  const hasFlows = !isWithoutIpv6(run) && !run.foreignNft;
  const only = run.isNftablesOnly ? "nftables" : run.foreignNft && "iptables";
  const backends = wanted.filter((each) => only === undefined || each === only);
  const part = run.only;
  if (part !== undefined) return backends.map((backend) => ({ backend, part }));
  return backends.flatMap((backend) =>
    PARTS.filter((part) => part !== "flows" || hasFlows).map((part) => ({ backend, part }))
  );
}

/**
 * Returns the results of all steps, in their order. A step without a result has failed.
 *
 * @param lines one JSON text for each step that was run
 * @param ended the reason why the machine ended, for steps that did not run
 */
export function collectResults(
  steps: readonly Step[],
  lines: readonly string[],
  ended: string,
): StepResult[] {
  const results = lines.map((line) => JSON.parse(line) as StepResult);
  return steps.map((step) =>
    results.find(({ backend, part }) => backend === step.backend && part === step.part) ??
      { ...step, passed: false, detail: ended, seconds: 0, isTried: false }
  );
}
