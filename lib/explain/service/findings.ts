/**
 * Why a Service does not work: from the facts to causes and what to do about them.
 *
 * @module
 */
import { familyOf } from "../../model/values/address.ts";
import { describeUnsupported, type Unsupported, worksWithout } from "../../model/kernel/traits.ts";
import { isServiceKey, nameOfHolder } from "../../policy/claimed.ts";
import type { Conflict } from "../../policy/claims.ts";
import { error, note, sortFindings, warning } from "./finding.ts";
import { count } from "../../model/values/text.ts";
import type { ServiceFacts } from "../../source/objects/inspect.ts";
import { type CauseInputs, portFindings } from "./port_findings.ts";
import type { Finding, PortReport } from "../report.ts";

/** What the causes are found in. */
export interface FindingInputs extends CauseInputs {
  readonly ports: readonly PortReport[];
  readonly conflicts: readonly Conflict[];
  /** What the Service needs and the kernel refuses. */
  readonly unsupported: readonly Unsupported[];
  /** True if this node's Node object was seen. */
  readonly isNodeKnown: boolean;
  readonly nodeName: string;
  readonly externalIPsAllowed: boolean;
}

/** All that is to be said of a Service that has a virtual IP, errors first, each once. */
export function findCauses(inputs: FindingInputs): Finding[] {
  const all = [
    ...conflictFindings(inputs),
    ...unsupportedFindings(inputs),
    ...sliceFindings(inputs),
    ...inputs.ports.flatMap((port) => portFindings(port, inputs)),
    ...serviceFindings(inputs),
  ];
  return sortFindings(all);
}

/** Where other slices bring endpoints, one that is not used is no more than odd. */
function sliceFindings({ unusedSlices, ports }: FindingInputs): Finding[] {
  const isServed = ports.some(({ endpoints }) =>
    endpoints.some(({ usedFor }) => usedFor.length > 0)
  );
  return unusedSlices.map(({ slice, reason, endpoints }) =>
    (isServed ? warning : error)(
      "slice-unused",
      `EndpointSlice ${slice} (${count(endpoints, "endpoint")}) is not used: ${reason}`,
    )
  );
}

/** Conflicts that get a line of their own. */
const MOST_CONFLICTS = 20;

function conflictFindings({ conflicts }: FindingInputs): Finding[] {
  const more = conflicts.length - MOST_CONFLICTS;
  return conflicts.slice(0, MOST_CONFLICTS).map(conflictFinding).concat(
    more > 0 ? error("conflict", `… and ${count(more, "more conflict")}`) : [],
  );
}

function conflictFinding({ claim, holder, loser, because }: Conflict): Finding {
  return isServiceKey(holder)
    ? error(
      "conflict",
      `${claim} belongs to ${nameOfHolder(holder)}, ${because}; ${loser} gets it when that ` +
        "lets go",
      `give one of them another address or port: kubectl get service -n ` +
        `${holder.replace("/", " ")} -o yaml`,
    )
    : error(
      "conflict",
      `${claim} belongs to ${nameOfHolder(holder)}, ${because}; ${loser} does not get it`,
      "take it out of the Service's externalIPs, ports or status",
    );
}

/** What nft or the kernel of this node refuses, and families that the node does not have. */
function unsupportedFindings({ unsupported, service, node }: FindingInputs): Finding[] {
  const families = [...new Set(service.clusterIPs.map(familyOf))];
  const missing = families.filter((family) => !node.ipFamilies.includes(family));
  const say = missing.length === families.length ? error : warning;
  return [
    ...unsupported.map((each) =>
      worksWithout(each.feature)
        ? warning("not-supported", `not as asked on this node: ${describeUnsupported(each)}`)
        : error("not-supported", `refused on this node: ${describeUnsupported(each)}`)
    ),
    ...missing.map((family) =>
      say("no-ip-family", `no IPv${family} rules: this node has no IPv${family}`)
    ),
  ];
}

function serviceFindings(inputs: FindingInputs): Finding[] {
  const { service, facts, node, isNodeKnown, nodeName, externalIPsAllowed } = inputs;
  const families = new Set(service.clusterIPs.map(familyOf));
  const strays = [...service.externalIPs, ...service.loadBalancerIPs]
    .filter((address) => !families.has(familyOf(address)));
  const isLocal = service.externalTrafficPolicy === "Local";
  const undetected = [...families].filter((family) => !node.families[family].localDetector);
  return [
    ...strays.map((address) =>
      warning(
        "family-without-cluster-ip",
        `${address} is not served: the Service has no IPv${familyOf(address)} cluster IP`,
        "set ipFamilyPolicy and ipFamilies",
      )
    ),
    ...!externalIPsAllowed && (facts?.externalIPs.length ?? 0) > 0
      ? [
        warning("external-ips-off", "externalIPs are switched off (AllowServiceExternalIPs=false)"),
      ]
      : [],
    ...facts?.type === "LoadBalancer" && service.loadBalancerIPs.length === 0
      ? [loadBalancerFinding(facts)]
      : [],
    ...service.affinitySeconds > 0 && (service.scheduler?.name ?? "random") !== "random"
      ? [warning(
        "scheduler-unused",
        `session affinity decides, not ${service.scheduler?.name}: a new client's endpoint is picked ` +
          "at random",
        "set sessionAffinity to None, or take the annotation signpost.dev/scheduler away",
      )]
      : [],
    ...isLocal && undetected.length > 0
      ? [warning(
        "pods-not-recognised",
        "external traffic policy Local, and nothing says which senders are pods: they are treated " +
          "like clients from outside",
        "set clusterCIDR, or another detectLocalMode",
      )]
      : [],
    ...isNodeKnown ? [] : [warning(
      "node-unknown",
      `no Node ${nodeName} was seen: its zone and addresses are not known`,
      "set --hostname-override to the Node's name",
    )],
  ];
}

function loadBalancerFinding({ ingress, proxyModeIngress }: ServiceFacts): Finding {
  return ingress > 0 && ingress === proxyModeIngress
    ? note(
      "load-balancer-proxies",
      "the load balancer's addresses have ipMode Proxy: no rules for them",
    )
    : warning(
      "load-balancer-pending",
      "type LoadBalancer, and status.loadBalancer has no IP yet",
      "see the events of the Service, and the cloud controller's log",
    );
}
