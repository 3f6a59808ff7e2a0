/**
 * Steps of the kernel's rules as changes that a person can read.
 *
 * @module
 */

/** One thing that would change in the kernel. */
export interface Change {
  readonly change: "add" | "delete";
  readonly type: "element" | "chain" | "set" | "rule";
  /** The set, map or chain. */
  readonly in: string;
  /** The key of an element, or the rule; `""`: the chain or set itself. */
  readonly key: string;
  /** What the key leads to; `""` in sets. */
  readonly data: string;
  /** `namespace/name:port`; `""`: several, or not known. */
  readonly service: string;
}

/** Changes, and what is odd about them. */
export interface KernelChanges {
  readonly changes: readonly Change[];
  /** Such as frontends that other Services hold in the kernel. */
  readonly warnings: readonly string[];
}
