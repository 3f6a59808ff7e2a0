/**
 * The commit that the binary was made of. The compile task writes it here before it compiles.
 *
 * @module
 */

/** Abbreviated git hash; `""` where signpost runs from its source. */
export const COMMIT = "";
