/**
 * Defines limits on the cost that one Service and one namespace have on every node. kube-proxy has
 * none.
 *
 * @module
 */
import { DEFAULT_LIMITS } from "../../model/configuration.ts";
import { INT32_MAX, integer } from "../file/fields.ts";
import { group, type Setting, value } from "./setting.ts";

/** A Service over a limit is refused alone. The defaults exceed the costs of known clusters. */
export const LIMIT_GROUP = group({
  title: "Limits",
  settings: {
    "signpost.limits.service": limit(DEFAULT_LIMITS.service, {
      name: "max-service-cost",
      help:
        "Elements that one Service may cost: its frontends (each address with each port, and node ports) with their endpoints and source ranges, its ports and slice ports, and 20 for each chain of session affinity or round-robin. Default 100000.",
    }),
    "signpost.limits.namespace": limit(DEFAULT_LIMITS.namespace, {
      name: "max-namespace-cost",
      help: "Elements that all Services of one namespace may cost. Default 500000.",
    }),
  },
});

/** Returns a setting with a number of at least 1. */
function limit(
  fallback: number,
  flag: { readonly name: string; readonly help: string },
): Setting<number> {
  return value(integer(1, INT32_MAX), fallback, { flag: { ...flag, kind: "integer", value: "N" } });
}
