/**
 * What this program is.
 *
 * @module
 */
import { COMMIT } from "./commit.ts";

/** The release. */
export const VERSION = "0.1.0";

/** The kube-proxy whose behaviour signpost has. */
export const KUBERNETES_VERSION = "1.37.2";

/** What `--version` prints. */
export const VERSION_TEXT = `signpost ${VERSION}${COMMIT === "" ? "" : ` (commit ${COMMIT})`}`;
