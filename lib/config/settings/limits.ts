/**
 * Settings for what one Service, and one namespace, may ask of every node. kube-proxy has no limits.
 *
 * @module
 */
import { DEFAULT_LIMITS } from "../../model/configuration.ts";
import { INT32_MAX, integer } from "../file/fields.ts";
import { group, type Setting, value } from "./setting.ts";

/** What is over a limit is refused by itself; the defaults are above what any sane cluster asks for. */
export const LIMIT_GROUP = group({
  title: "Limits",
  settings: {
    "signpost.limits.service.frontends": limit(DEFAULT_LIMITS.service.frontends, {
      name: "max-service-frontends",
      help:
        "Addresses, each with each port, and node ports of a Service. Default 10000: each is worked out and claimed by itself.",
    }),
    "signpost.limits.service.elements": limit(DEFAULT_LIMITS.service.elements, {
      name: "max-service-elements",
      help:
        "Frontends of a Service, each with each endpoint and source range. Default 100000: more takes a node's memory, and seconds of every full sync.",
    }),
    "signpost.limits.service.sourceRanges": limit(DEFAULT_LIMITS.service.sourceRanges, {
      name: "max-service-source-ranges",
      help:
        "loadBalancerSourceRanges of a Service. Default 10000: they are merged at each change of the Service.",
    }),
    "signpost.limits.service.affinityChains": limit(DEFAULT_LIMITS.service.affinityChains, {
      name: "max-service-affinity-chains",
      help:
        "Ports of a Service with session affinity, each with each endpoint. Default 5000: each is a chain, and the kernel looks at all chains in every transaction.",
    }),
    "signpost.limits.namespace.frontends": limit(DEFAULT_LIMITS.namespace.frontends, {
      name: "max-namespace-frontends",
      help: "The same of all Services of a namespace. Default 100000.",
    }),
    "signpost.limits.namespace.elements": limit(DEFAULT_LIMITS.namespace.elements, {
      name: "max-namespace-elements",
      help: "The same of all Services of a namespace. Default 1000000.",
    }),
    "signpost.limits.namespace.sourceRanges": limit(DEFAULT_LIMITS.namespace.sourceRanges, {
      name: "max-namespace-source-ranges",
      help: "The same of all Services of a namespace. Default 100000.",
    }),
    "signpost.limits.namespace.affinityChains": limit(DEFAULT_LIMITS.namespace.affinityChains, {
      name: "max-namespace-affinity-chains",
      help: "The same of all Services of a namespace. Default 10000.",
    }),
  },
});

/** A number of at least 1. */
function limit(
  fallback: number,
  flag: { readonly name: string; readonly help: string },
): Setting<number> {
  return value(integer(1, INT32_MAX), fallback, { flag: { ...flag, kind: "integer", value: "N" } });
}
