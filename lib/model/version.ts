/** Declares the version of this program. */
import { COMMIT } from "./commit.ts";

export const VERSION = "0.1.0";

/** The kube-proxy release whose behaviour signpost has. */
export const KUBERNETES_VERSION = "1.37.2";

export const VERSION_TEXT = `signpost ${VERSION}${COMMIT === "" ? "" : ` (commit ${COMMIT})`}`;
