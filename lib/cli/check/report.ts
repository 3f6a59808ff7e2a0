/**
 * The answer of `signpost check`, as data: what `-o json` prints. `docs/output.md` describes it.
 *
 * @module
 */
import type { Mode } from "../../model/configuration.ts";
import type { Finding } from "../../model/status.ts";

/** The version of the format; it changes only where a field goes or changes its meaning. */
export const CHECK_VERSION = 1;

/** The facts that were checked, and the findings. */
export interface CheckReport {
  readonly checkVersion: typeof CHECK_VERSION;
  readonly node: string;
  /** The mode that is or would be used. */
  readonly mode: Mode;
  /** The kernel's release. */
  readonly kernel: string;
  /** Version of the program that writes the rules; `""`: no rules can be written. */
  readonly program: string;
  /** URL of the API server, or `kubeconfig` if that names none; `""`: the objects come from manifests. */
  readonly apiServer: string;
  /** A daemon answered, and its findings are among these. */
  readonly daemon: boolean;
  /** The objects were looked at, here or by the daemon. */
  readonly objects: boolean;
  /** Errors first. */
  readonly findings: readonly Finding[];
}
