/** Names the table of the guard, which exists as long as kube-proxy's ipvs leftovers. */
export const IPVS_TABLE = "inet ipvs-signpost";
