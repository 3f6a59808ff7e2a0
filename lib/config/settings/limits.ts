/**
 * Settings for what one Service, and one namespace, may ask of every node. kube-proxy has no limits.
 *
 * @module
 */
import { DEFAULT_LIMITS } from "../../model/configuration.ts";
import { INT32_MAX, integer } from "../file/fields.ts";
import { group, value } from "./setting.ts";

/** What is over a limit is refused by itself; the defaults are above what any sane cluster asks for. */
export const LIMIT_GROUP = group({
  title: "Limits",
  settings: {
    "signpost.limits.service.frontends": value(
      integer(1, INT32_MAX),
      DEFAULT_LIMITS.service.frontends,
      {
        flag: {
          name: "max-service-frontends",
          kind: "integer",
          value: "N",
          help:
            "Addresses, each with each port, and node ports of a Service. Default 10000: each is worked out and claimed by itself.",
        },
      },
    ),
    "signpost.limits.service.elements": value(
      integer(1, INT32_MAX),
      DEFAULT_LIMITS.service.elements,
      {
        flag: {
          name: "max-service-elements",
          kind: "integer",
          value: "N",
          help:
            "Frontends of a Service, each with each endpoint and source range. Default 100000: more takes a node's memory, and seconds of every full sync.",
        },
      },
    ),
    "signpost.limits.service.sourceRanges": value(
      integer(1, INT32_MAX),
      DEFAULT_LIMITS.service.sourceRanges,
      {
        flag: {
          name: "max-service-source-ranges",
          kind: "integer",
          value: "N",
          help:
            "loadBalancerSourceRanges of a Service. Default 10000: they are merged at each change of the Service.",
        },
      },
    ),
    "signpost.limits.service.affinityChains": value(
      integer(1, INT32_MAX),
      DEFAULT_LIMITS.service.affinityChains,
      {
        flag: {
          name: "max-service-affinity-chains",
          kind: "integer",
          value: "N",
          help:
            "Ports of a Service with session affinity, each with each endpoint. Default 5000: each is a chain, and the kernel looks at all chains in every transaction.",
        },
      },
    ),
    "signpost.limits.namespace.frontends": value(
      integer(1, INT32_MAX),
      DEFAULT_LIMITS.namespace.frontends,
      {
        flag: {
          name: "max-namespace-frontends",
          kind: "integer",
          value: "N",
          help: "The same of all Services of a namespace. Default 100000.",
        },
      },
    ),
    "signpost.limits.namespace.elements": value(
      integer(1, INT32_MAX),
      DEFAULT_LIMITS.namespace.elements,
      {
        flag: {
          name: "max-namespace-elements",
          kind: "integer",
          value: "N",
          help: "The same of all Services of a namespace. Default 1000000.",
        },
      },
    ),
    "signpost.limits.namespace.sourceRanges": value(
      integer(1, INT32_MAX),
      DEFAULT_LIMITS.namespace.sourceRanges,
      {
        flag: {
          name: "max-namespace-source-ranges",
          kind: "integer",
          value: "N",
          help: "The same of all Services of a namespace. Default 100000.",
        },
      },
    ),
    "signpost.limits.namespace.affinityChains": value(
      integer(1, INT32_MAX),
      DEFAULT_LIMITS.namespace.affinityChains,
      {
        flag: {
          name: "max-namespace-affinity-chains",
          kind: "integer",
          value: "N",
          help: "The same of all Services of a namespace. Default 10000.",
        },
      },
    ),
  },
});
