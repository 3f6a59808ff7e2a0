/**
 * The answer of `signpost diff`, as data: what `-o json` prints. `docs/output.md` describes it.
 *
 * @module
 */

/** The version of the format; it changes only where a field goes or changes its meaning. */
export const DIFF_VERSION = 1;

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

/** The answer. */
export interface DiffReport {
  readonly diffVersion: typeof DIFF_VERSION;
  readonly node: string;
  readonly mode: "nftables" | "iptables";
  /** What the manifests were compared with: the objects of the API server, or the kernel. */
  readonly against: "api" | "kernel";
  /** `Service shop/web` and so on, as the manifests have them. */
  readonly objects: readonly string[];
  /** Deletions first, as the kernel would get them. */
  readonly changes: readonly Change[];
  /** What would be odd afterwards: conflicts, refused objects, addresses that are not known yet. */
  readonly warnings: readonly string[];
}
