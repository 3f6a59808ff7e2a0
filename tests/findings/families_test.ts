import { assertEquals, assertMatch } from "@std/assert";
import {
  type FamilyInputs,
  familyProblems,
  nodePortProblems,
} from "../../lib/findings/addresses.ts";
import { completeSettings } from "../../lib/config/complete.ts";
import type { GivenSettings } from "../../lib/config/settings/table.ts";
import type { Family } from "../../lib/model/values/address.ts";

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

/** kube-proxy's cases: settings, primary family, whether there is a problem. */
const BAD_CONFIG: readonly (readonly [string, GivenSettings, Family, boolean])[] = [
  [
    "single-stack NodePortAddresses with single-stack config",
    { clusterCIDR: ["10.0.0.0/8"], nodePortAddresses: ["192.168.0.0/24"] },
    4,
    false,
  ],
  [
    "dual-stack NodePortAddresses with dual-stack config",
    { clusterCIDR: DUAL, nodePortAddresses: ["192.168.0.0/24", "fd03::/64"] },
    4,
    false,
  ],
  ["empty NodePortAddresses", { nodePortAddresses: [] }, 4, true],
  [
    "single-stack NodePortAddresses with dual-stack config",
    { clusterCIDR: DUAL, nodePortAddresses: ["192.168.0.0/24"] },
    4,
    true,
  ],
  [
    "wrong-single-stack NodePortAddresses",
    { clusterCIDR: ["fd09::/64"], nodePortAddresses: ["192.168.0.0/24"] },
    6,
    true,
  ],
];

for (const [name, settings, primary, isWrong] of BAD_CONFIG) {
  Deno.test(`Test_checkBadConfig: ${name}`, () => {
    assertEquals(nodePortProblems(inputs(settings, { primary })).length, isWrong ? 1 : 0);
  });
}

Deno.test("node ports on a word are no problem in any family", () => {
  for (const word of ["primary", "localhost", "all"]) {
    const settings = { clusterCIDR: DUAL, nodePortAddresses: ["192.168.0.0/24", word] };
    assertEquals(nodePortProblems(inputs(settings, { primary: 6 })), []);
  }
});

type Outcome = "fine" | "warned" | "fatal";

interface IpCase {
  readonly name: string;
  readonly settings: GivenSettings;
  readonly primary?: Family;
  readonly podCIDRs?: readonly string[];
  /** On a single-stack and on a dual-stack node. */
  readonly single: Outcome;
  readonly dual: Outcome;
}

const NODE_CIDR: GivenSettings = { detectLocalMode: "NodeCIDR" };

/** kube-proxy's cases. */
const BAD_IP_CONFIG: readonly IpCase[] = [
  { name: "empty config", settings: {}, single: "fine", dual: "fine" },
  {
    name: "ok single-stack clusterCIDR",
    settings: { clusterCIDR: ["10.0.0.0/8"] },
    single: "fine",
    dual: "fine",
  },
  {
    name: "ok dual-stack clusterCIDR",
    settings: { clusterCIDR: DUAL },
    single: "fine",
    dual: "fine",
  },
  {
    name: "ok reversed dual-stack clusterCIDR",
    settings: { clusterCIDR: DUAL.toReversed() },
    single: "fine",
    dual: "fine",
  },
  {
    name: "wrong-family clusterCIDR",
    settings: { clusterCIDR: ["fd01:2345::/64"], ...NODE_CIDR },
    single: "warned",
    dual: "warned",
  },
  {
    name: "wrong-family clusterCIDR when using ClusterCIDR LocalDetector",
    settings: { clusterCIDR: ["fd01:2345::/64"], detectLocalMode: "ClusterCIDR" },
    single: "fatal",
    dual: "warned",
  },
  {
    name: "ok single-stack node.spec.podCIDRs",
    settings: NODE_CIDR,
    podCIDRs: ["10.0.0.0/8"],
    single: "fine",
    dual: "fine",
  },
  {
    name: "ok dual-stack node.spec.podCIDRs",
    settings: NODE_CIDR,
    podCIDRs: DUAL,
    single: "fine",
    dual: "fine",
  },
  {
    name: "ok reversed dual-stack node.spec.podCIDRs",
    settings: NODE_CIDR,
    podCIDRs: DUAL.toReversed(),
    single: "fine",
    dual: "fine",
  },
  {
    name: "wrong-family node.spec.podCIDRs",
    settings: NODE_CIDR,
    podCIDRs: ["fd01:2345::/64"],
    single: "fatal",
    dual: "fatal",
  },
  {
    name: "ok winkernel.sourceVip",
    settings: { "winkernel.sourceVip": "10.0.0.1" },
    single: "fine",
    dual: "fine",
  },
  {
    name: "wrong family winkernel.sourceVip",
    settings: { "winkernel.sourceVip": "fd01:2345::1" },
    single: "warned",
    dual: "warned",
  },
  {
    name: "ok IPv4 metricsBindAddress",
    settings: { metricsBindAddress: "10.0.0.1:9999" },
    single: "fine",
    dual: "fine",
  },
  {
    name: "ok IPv6 metricsBindAddress",
    settings: { metricsBindAddress: "[fd01:2345::1]:9999" },
    primary: 6,
    single: "fine",
    dual: "fine",
  },
  {
    name: "ok unspecified wrong-family metricsBindAddress",
    settings: { metricsBindAddress: "0.0.0.0:9999" },
    primary: 6,
    single: "fine",
    dual: "fine",
  },
  {
    name: "wrong family metricsBindAddress",
    settings: { metricsBindAddress: "10.0.0.1:9999" },
    primary: 6,
    single: "warned",
    dual: "fine",
  },
  {
    name: "ok ipvs.excludeCIDRs",
    settings: { "ipvs.excludeCIDRs": ["10.0.0.0/8"] },
    single: "fine",
    dual: "fine",
  },
  {
    name: "wrong family ipvs.excludeCIDRs",
    settings: { "ipvs.excludeCIDRs": ["10.0.0.0/8", "192.168.0.0/24"] },
    primary: 6,
    single: "warned",
    dual: "fine",
  },
];

for (const { name, settings, single, dual, ...node } of BAD_IP_CONFIG) {
  Deno.test(`Test_checkBadIPConfig: ${name}`, () => {
    const outcome = (dualStack: boolean): Outcome => {
      const problems = familyProblems(inputs(settings, { ...node, dualStack }));
      if (problems.length === 0) return "fine";
      return problems.some(({ id }) => id === "pod-detection-of-other-family") ? "fatal" : "warned";
    };
    assertEquals([outcome(false), outcome(true)], [single, dual]);
  });
}

Deno.test("a wrong family is told with the setting and what comes of it", () => {
  const [problem] = familyProblems(inputs({ clusterCIDR: ["fd00::/8"] }, { dualStack: true }));
  assertMatch(
    problem?.what ?? "",
    /^this node is IPv4-first, and clusterCIDR has only IPv6 addresses: pods of this node are not/,
  );
});
