/**
 * What the binary was made of. The compile task writes it here before it compiles.
 *
 * @module
 */

/** Abbreviated git hash; `""` where signpost runs from its source. */
export const COMMIT: string = "";

/** The day of that commit, as `2026-11-23`; `""` where signpost runs from its source. */
export const COMMIT_DATE: string = "";

/** What runs the JavaScript: `v8` or `quickjs`. */
export const ENGINE: string = "v8";
