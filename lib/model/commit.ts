/** The commit of the binary. The compile task writes this file. */

/** The abbreviated git hash; `""` if signpost runs from its source. */
export const COMMIT: string = "";

/** The day of that commit, as `2026-11-23`; `""` if signpost runs from its source. */
export const COMMIT_DATE: string = "";
