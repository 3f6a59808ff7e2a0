/**
 * The table that is there while connections of kube-proxy's ipvs mode live on.
 *
 * @module
 */

/** Its name; see `ipvs/guard.ts`. It is apart from ours, as it comes and goes with what another program left. */
export const IPVS_TABLE = "inet ipvs-signpost";
