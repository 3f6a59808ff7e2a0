/** The answer of `signpost diff`, as data: what `-o json` prints. `docs/output.md` describes it. */
import type { Change } from "../model/kernel/differences.ts";
import type { ObjectsOrigin } from "../model/status.ts";
import type { Mode } from "../model/configuration.ts";

/** The version of the format; it changes only where a field goes or changes its meaning. */
export const DIFF_VERSION = 1;

/** The answer. */
export interface DiffReport {
  readonly diffVersion: typeof DIFF_VERSION;
  readonly node: string;
  readonly mode: Mode;
  /** The manifests were compared with the present objects. */
  readonly against: "api";
  /** `Service shop/web` and so on, as the manifests have them. */
  readonly objects: readonly string[];
  /** The source of the present objects. */
  readonly present: ObjectsOrigin;
  /** Deletions first, as the kernel would get them. */
  readonly changes: readonly Change[];
  /** Oddities afterwards: conflicts, refused objects, addresses that are not known yet. */
  readonly warnings: readonly string[];
}
