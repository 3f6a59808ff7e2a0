/**
 * Differences between kernel rules, as entries that a person can read.
 *
 * @module
 */

/** One difference in the kernel. */
export interface Change {
  readonly change: "add" | "delete";
  readonly type: "element" | "chain" | "set" | "rule";
  /** The set, map or chain. */
  readonly in: string;
  /** The key of an element, or the rule; `""` for the chain or set itself. */
  readonly key: string;
  /** The value of the key; `""` in sets. */
  readonly data: string;
  /** `namespace/name:port`; `""` if several or unknown. */
  readonly service: string;
}

/** Changes, with warnings about them. */
export interface KernelChanges {
  readonly changes: readonly Change[];
  /** Warnings, such as a frontend that another Service holds in the kernel. */
  readonly warnings: readonly string[];
}
