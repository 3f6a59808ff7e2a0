import { assertEquals, assertMatch } from "@std/assert";
import {
  checkAddressPlan,
  checkNodeAddress,
  checkNodePortRanges,
  checkPodDetection,
  checkPodRange,
  type FamilyInputs,
  familyProblems,
  nodePortProblems,
} from "../../lib/findings/addresses.ts";
import { completeSettings } from "../../lib/config/configuration.ts";
import type { GivenSettings } from "../../lib/config/settings.ts";
import type { Family } from "../../lib/model/values/address.ts";
import { node, service, slice } from "../policy/objects.ts";
import { type ApiObject, NODE_NAME } from "../support/pipeline.ts";
import { factsOf, listOf } from "./facts.ts";
import type { Configuration } from "../../lib/config/configuration.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { node as buildNode, serviceCIDR } from "../support/cluster.ts";

function inputs(
  settings: GivenSettings,
  { primary = 4, podCIDRs = [], dualStack = false }: {
    readonly primary?: Family;
    readonly podCIDRs?: readonly string[];
    readonly dualStack?: boolean;
  } = {},
): FamilyInputs {
  const open = { healthzBindAddress: "", metricsBindAddress: "" };
  const configuration = completeSettings({ ...open, ...settings });
  return { configuration, primary, podCIDRs, dualStack };
}

const DUAL = ["10.0.0.0/8", "fd09::/64"];
const LAN = "192.168.0.0/24";

/** kube-proxy's cases: settings, primary family, whether there is a problem. */
const BAD_CONFIG: readonly (readonly [string, GivenSettings, Family, boolean])[] = [
  ["single-stack config", { clusterCIDR: ["10.0.0.0/8"], nodePortAddresses: [LAN] }, 4, false],
  [
    "dual-stack NodePortAddresses with dual-stack config",
    { clusterCIDR: DUAL, nodePortAddresses: [LAN, "fd03::/64"] },
    4,
    false,
  ],
  ["empty NodePortAddresses", { nodePortAddresses: [] }, 4, true],
  ["single-stack with dual-stack", { clusterCIDR: DUAL, nodePortAddresses: [LAN] }, 4, true],
  ["wrong-single-stack", { clusterCIDR: ["fd09::/64"], nodePortAddresses: [LAN] }, 6, true],
];

for (const [name, settings, primary, isWrong] of BAD_CONFIG) {
  Deno.test(`Test_checkBadConfig: ${name}`, () => {
    assertEquals(listOf(nodePortProblems(inputs(settings, { primary }))).length, isWrong ? 1 : 0);
  });
}

Deno.test("node ports on a word are not a problem in any family", () => {
  for (const word of ["primary", "localhost", "all"]) {
    const settings = { clusterCIDR: DUAL, nodePortAddresses: ["192.168.0.0/24", word] };
    assertEquals(listOf(nodePortProblems(inputs(settings, { primary: 6 }))), []);
  }
});

type Outcome = "fine" | "warned" | "fatal";

const NODE_CIDR: GivenSettings = { detectLocalMode: "NodeCIDR" };
const OTHER = "fd01:2345::/64";

/** kube-proxy's cases: settings, the outcome on a single-stack and a dual-stack node, the rest. */
const BAD_IP_CONFIG: readonly (readonly [
  name: string,
  settings: GivenSettings,
  single: Outcome,
  dual: Outcome,
  node?: { readonly primary?: Family; readonly podCIDRs?: readonly string[] },
])[] = [
  ["empty config", {}, "fine", "fine"],
  ["ok single-stack clusterCIDR", { clusterCIDR: ["10.0.0.0/8"] }, "fine", "fine"],
  ["ok dual-stack clusterCIDR", { clusterCIDR: DUAL }, "fine", "fine"],
  ["ok reversed dual-stack clusterCIDR", { clusterCIDR: DUAL.toReversed() }, "fine", "fine"],
  ["wrong-family clusterCIDR", { clusterCIDR: [OTHER], ...NODE_CIDR }, "warned", "warned"],
  ["wrong-family ClusterCIDR LocalDetector", { clusterCIDR: [OTHER] }, "fatal", "warned"],
  ["ok single-stack podCIDRs", NODE_CIDR, "fine", "fine", { podCIDRs: ["10.0.0.0/8"] }],
  ["ok dual-stack podCIDRs", NODE_CIDR, "fine", "fine", { podCIDRs: DUAL }],
  ["ok reversed podCIDRs", NODE_CIDR, "fine", "fine", { podCIDRs: DUAL.toReversed() }],
  ["wrong-family podCIDRs", NODE_CIDR, "fatal", "fatal", { podCIDRs: [OTHER] }],
  ["ok IPv4 metricsBindAddress", { metricsBindAddress: "10.0.0.1:9999" }, "fine", "fine"],
  ["ok IPv6", { metricsBindAddress: "[fd01:2345::1]:9999" }, "fine", "fine", { primary: 6 }],
  ["ok unspecified", { metricsBindAddress: "0.0.0.0:9999" }, "fine", "fine", { primary: 6 }],
  ["wrong family", { metricsBindAddress: "10.0.0.1:9999" }, "warned", "fine", { primary: 6 }],
  ["ok ipvs.excludeCIDRs", { "ipvs.excludeCIDRs": ["10.0.0.0/8"] }, "fine", "fine"],
  ["wrong", { "ipvs.excludeCIDRs": ["10.0.0.0/8", LAN] }, "warned", "fine", { primary: 6 }],
];

for (const [name, settings, single, dual, node] of BAD_IP_CONFIG) {
  Deno.test(`Test_checkBadIPConfig: ${name} ${Object.keys(settings)}`, () => {
    const outcome = (dualStack: boolean): Outcome => {
      const problems = listOf(familyProblems(inputs(settings, { ...node, dualStack })));
      if (problems.length === 0) return "fine";
      return problems.some(({ id }) => id === "pod-detection-of-other-family") ? "fatal" : "warned";
    };
    assertEquals([outcome(false), outcome(true)], [single, dual]);
  });
}

Deno.test("a wrong family is reported with its setting", () => {
  const [problem] = familyProblems(inputs({ clusterCIDR: ["fd00::/8"] }, { dualStack: true }));
  assertMatch(
    problem?.what ?? "",
    /^this node is IPv4-first, and clusterCIDR has only IPv6 addresses: pods of this node are not/,
  );
});

Deno.test("node ports on ranges without an address of this node are found", () => {
  const found = (nodePortAddresses: readonly string[]) =>
    listOf(checkNodePortRanges(factsOf([node(["192.168.77.2"])], {
      configuration: { nodePortAddresses },
    }))).map(({ what }) => what);
  assertEquals(found(["10.99.0.0/16", "fd99::/64"]), [
    "no interface here has an address in nodePortAddresses (10.99.0.0/16, fd99::/64): node ports " +
    "do not answer there",
  ]);
  for (const ranges of [[], ["10.99.0.0/16", "192.168.0.0/16"], ["10.99.0.0/16", "localhost"]]) {
    assertEquals(found(ranges), []);
  }
});

const idsOf = (facts: Parameters<typeof checkNodeAddress>[0]) =>
  listOf(checkNodeAddress(facts)).map(({ id }) => id);

Deno.test("a node of which no address is known opens node ports on all addresses", () => {
  assertEquals(idsOf(factsOf([])), ["node-address-unknown"]);
});

Deno.test("a missing Node is a finding in iptables mode, too", () => {
  assertEquals(idsOf(factsOf([], { mode: "iptables" })), ["node-unknown"]);
});

Deno.test("manifests may do without a Node", () => {
  const facts = factsOf([], { mode: "iptables" });
  const { configuration } = facts;
  const signpost = { ...configuration.signpost, manifests: ["x.yaml"] };
  assertEquals(idsOf({ ...facts, configuration: { ...configuration, signpost } }), []);
});

Deno.test("nothing is said of the Node before all lists are complete", () => {
  assertEquals(idsOf(factsOf([], { facts: { objects: undefined } })), []);
});

Deno.test("a Node whose address no interface has is named with it", () => {
  const facts = factsOf([node(["192.168.77.3"])], {
    facts: { interfaceAddresses: ["127.0.0.1", "192.168.77.2"] },
  });
  assertEquals(listOf(checkNodeAddress(facts)).map(({ id, what, where }) => [id, what, where]), [[
    "node-address-elsewhere",
    `Node ${NODE_NAME} has 192.168.77.3; no interface here has it`,
    `Node ${NODE_NAME}`,
  ]]);
});

Deno.test("one address of the Node on an interface is enough", () => {
  const facts = factsOf([node(["203.0.113.1", "192.168.77.2"])], {
    facts: { interfaceAddresses: ["192.168.77.2"] },
  });
  assertEquals(idsOf(facts), []);
});

/** Returns the findings on these objects, with pods in 10.244.0.0/16. */
function said(objects: readonly ApiObject[], interfaceAddresses: readonly string[] = []): string[] {
  const facts = factsOf(objects, {
    configuration: { clusterCIDRs: ["10.244.0.0/16"] },
    facts: { interfaceAddresses },
  });
  return listOf(checkPodRange(facts)).map(({ what }) => what);
}

Deno.test("the first pod of this node outside the range of all pods is named", () => {
  const endpoints = [`10.244.0.1@${NODE_NAME}`, `10.88.0.1@${NODE_NAME}`, `10.88.0.2@${NODE_NAME}`];
  const facts = factsOf([
    ...[service("web"), slice("web", endpoints)],
    ...[service("inside", { clusterIP: "10.96.0.11" }), slice("inside", endpoints.slice(0, 1))],
    ...[service("api", { clusterIP: "10.96.0.12" }), slice("api", endpoints.slice(1))],
  ], { configuration: { clusterCIDRs: ["10.244.0.0/16"] } });
  assertEquals(listOf(checkPodRange(facts)).map(({ what, services }) => [what, services]), [[
    "the pod 10.88.0.1 of this node (default/web) is outside 10.244.0.0/16: its traffic counts " +
    "as traffic from outside",
    ["default/web", "default/api"],
  ]]);
});

Deno.test("a podCIDR outside the range of all pods is named if no pod is seen inside", () => {
  const found = (podCIDR: string, endpoints: readonly string[] = []) => {
    const objects = [
      buildNode({ spec: { podCIDRs: [podCIDR] } }),
      service("web"),
      slice("web", endpoints),
    ];
    const facts = factsOf(objects, { configuration: { clusterCIDRs: ["10.244.0.0/16"] } });
    return listOf(checkPodRange(facts)).map(({ id, what }) => `${id}: ${what}`);
  };
  assertEquals(found("10.245.0.0/24", ["10.244.1.1@node-2"]), [
    "pod-cidr-outside-detected-range: the podCIDR 10.245.0.0/24 of this node is not inside of " +
    "10.244.0.0/16: traffic of its pods counts as traffic from outside",
  ]);
  assertEquals(found("10.244.0.0/24"), []);
  assertEquals(found("fd00:10:245::/64"), []);
  assertEquals(found("10.245.0.0/24", [`10.244.0.1@${NODE_NAME}`]), []);
});

Deno.test("a pod on the host's network is not a stray", () => {
  const objects = [service("web"), slice("web", [`10.88.0.1@${NODE_NAME}`, "10.88.0.2@node-2"])];
  assertEquals(said(objects, ["10.88.0.1"]), []);
});

Deno.test("an endpoint without a node is not a pod of this node", () => {
  const kubernetes = slice("kubernetes", ["10.88.0.1"]);
  const endpoints = [{ addresses: ["10.88.0.1"] }];
  assertEquals(said([service("kubernetes"), { ...kubernetes, endpoints }]), []);
});

Deno.test("very many Services are looked at in turns", () => {
  const names = Array.from({ length: 5_000 }, (_, i) => `s${i}`);
  const facts = factsOf(names.map((name) => service(name)), {
    configuration: { clusterCIDRs: ["10.244.0.0/16"] },
  });
  assertEquals([...checkPodRange(facts)].length, 5_000);
});

Deno.test("a node without a clusterCIDR or podCIDRs detects no pod", () => {
  const found = (configuration: Partial<Configuration>, podCIDRs: readonly string[] = []) => {
    const node = buildNode({ spec: { podCIDRs } });
    return listOf(checkPodDetection(factsOf([node], { configuration }))).map(({ where }) => where);
  };
  assertEquals(found({ clusterCIDRs: [] }), ["clusterCIDR"]);
  assertEquals(found({ clusterCIDRs: ["10.244.0.0/16"] }), []);
  const nodeCIDR = { clusterCIDRs: [], detectLocalMode: "NodeCIDR" } as const;
  assertEquals(found(nodeCIDR), [`Node ${NODE_NAME}`]);
  assertEquals(found(nodeCIDR, ["10.244.0.0/24"]), []);
  const nftables = { ...DEFAULTS.nftables, masqueradeAll: true };
  assertEquals(found({ clusterCIDRs: [], nftables }), []);
});

/** Returns the findings with a ServiceCIDR, the Service `default/web` and its endpoint. */
function found(
  { cidr, endpoint = "10.244.0.11", clusterIP = "10.96.0.10", ...rest }: {
    readonly cidr: string;
    readonly endpoint?: string;
    readonly clusterIP?: string;
    readonly objects?: readonly ApiObject[];
    readonly apiServers?: readonly string[];
    readonly clusterCIDRs?: readonly string[];
  },
) {
  const { objects = [], apiServers = [], clusterCIDRs = [] } = rest;
  const cidrs = serviceCIDR({ cidrs: [cidr] });
  const facts = factsOf(
    [cidrs, service("web", { clusterIP }), slice("web", [endpoint]), ...objects],
    { facts: { apiServerAddresses: apiServers }, configuration: { clusterCIDRs } },
  );
  return listOf(checkAddressPlan(facts)).map(({ id, what, services }) => [id, what, services]);
}

Deno.test("an address plan without overlaps has no finding", () => {
  const apart = {
    cidr: "10.96.0.0/16",
    objects: [node(["192.168.77.2"])],
    apiServers: ["192.168.77.3"],
    // A range that is wider than the ServiceCIDR says nothing of its addresses.
    clusterCIDRs: ["10.0.0.0/8"],
  };
  assertEquals(found(apart), []);
});

Deno.test("pods and their endpoints inside a ServiceCIDR are one finding", () => {
  const overlap = { cidr: "10.96.0.0/16", endpoint: "10.96.4.12", clusterCIDRs: ["10.96.4.0/24"] };
  assertEquals(found(overlap), [[
    "service-cidr-overlaps",
    "the ServiceCIDR 10.96.0.0/16 contains pods (10.96.4.0/24), the endpoint 10.96.4.12 of default/web",
    ["default/web"],
  ]]);
});

Deno.test("the API server and the node inside a ServiceCIDR are one finding", () => {
  const overlap = {
    cidr: "192.168.0.0/16",
    objects: [node(["192.168.77.2"])],
    apiServers: ["192.168.77.3"],
  };
  assertEquals(found(overlap), [[
    "service-cidr-overlaps",
    "the ServiceCIDR 192.168.0.0/16 contains the API server 192.168.77.3, this node's address 192.168.77.2",
    [],
  ]]);
});

Deno.test("an API server at a cluster IP is an error that names the Service", () => {
  const trap = { cidr: "10.97.0.0/16", apiServers: ["10.96.0.10"] };
  assertEquals(found(trap), [[
    "api-server-is-cluster-ip",
    "the API server 10.96.0.10 is the cluster IP of Service default/web",
    ["default/web"],
  ]]);
});
