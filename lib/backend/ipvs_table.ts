/**
 * Names the table that exists while connections of kube-proxy's ipvs mode keep working.
 * @module
 */

/** The table of the guard, see `guardScript`. It is separate because it lives only as long as another program's leftovers. */
export const IPVS_TABLE = "inet ipvs-signpost";
