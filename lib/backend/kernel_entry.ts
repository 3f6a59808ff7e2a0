/**
 * One thing of a Service in the kernel: what it should be beside what it is.
 *
 * @module
 */

/** One element, rule, chain or set. */
export interface KernelEntry {
  /** The set, map or chain. */
  readonly in: string;
  /** The key of the element, or the rule; `""`: the chain or set itself. */
  readonly key: string;
  /** What it should be; `""` where the key says all, or nothing should be there. */
  readonly desired: string;
  /** What it is. */
  readonly held: string;
  readonly state: "same" | "missing" | "extra" | "wrong";
}
