import { assertEquals } from "@std/assert";
import { explainEndpoints } from "../../lib/explain/endpoints.ts";
import type { Finding } from "../../lib/model/status.ts";
import { FINDING } from "../observe/page/contents.ts";
import { type ApiObject, NODE_NAME } from "../support/pipeline.ts";
import {
  causesOf,
  endpoint,
  explainWeb,
  loadBalancer,
  LOCAL,
  type Options,
  REMOTE,
  slice,
  web,
  worldOf,
} from "./cluster.ts";
import { connectionsTo } from "../support/cluster.ts";

/** A node finding on pods outside of the range of pods. */
function stray(id: string, what: string): Finding {
  const about = { where: "10.244.0.0/16", remedy: "", services: ["shop/other", "shop/web"] };
  return { id, severity: "warning", what, ...about };
}

Deno.test("pods that the rules do not take for pods meet policy Local", () => {
  const fromPods = (id: string) => {
    const objects = [loadBalancer({ externalTrafficPolicy: "Local" }), slice([REMOTE])];
    const [port] = explainWeb(objects, { nodeFindings: [stray(id, "")] }).ports;
    const balancer = port?.frontends.find(({ address }) => address === "192.0.2.10");
    const outcome = balancer?.outcomes.find(({ sender }) => sender === "pod");
    return [outcome?.verdict, outcome?.code, outcome?.conditions];
  };
  assertEquals(fromPods("unrelated"), ["dnat", "delivered", []]);
  const conditions = ["pods outside of 10.244.0.0/16 are dropped"];
  assertEquals(fromPods("pod-outside-detected-range"), ["dnat", "delivered", conditions]);
  assertEquals(fromPods("pod-cidr-outside-detected-range"), ["drop", "no-local-endpoints", []]);
});

/** The Service with the annotation that names its scheduler. */
function hashed(spec: Record<string, unknown> = {}, name = "consistent-hash"): ApiObject {
  const plain = web(spec);
  return { ...plain, metadata: { ...plain.metadata, annotations: { [ANNOTATION]: name } } };
}

const ANNOTATION = "signpost.dev/scheduler";

Deno.test("the scheduler is named, where it is not random", () => {
  const [port] = explainWeb([hashed(), slice([LOCAL, REMOTE])]).ports;
  const scheduler = { type: "consistent-hash", hash: "source", tableSize: 251 } as const;
  assertEquals(port?.scheduler, scheduler);
  assertEquals(port?.frontends[0]?.outcomes.map((each) => each.scheduler), [
    scheduler,
    scheduler,
    scheduler,
  ]);
  assertEquals(explainWeb([web(), slice([LOCAL])]).ports[0]?.scheduler, null);
});

const NOT_READ = "note objects-not-read: the Service was not read from its source: its " +
  "selector, target ports and unused slices are not known";

/** Services that do not work for reasons outside of their objects; tests/scripts/causes.txt has the others. */
const BROKEN: readonly {
  readonly name: string;
  readonly objects: readonly ApiObject[];
  readonly options?: Options;
  readonly causes: readonly string[];
  readonly verdict?: string;
}[] = [
  {
    name: "a Service without endpoints that could not be read as it is written",
    objects: [web(), slice([])],
    options: { isUnseen: true },
    causes: [
      "error selector-matches-nothing: the selector matches no Pod of namespace shop: its " +
      "EndpointSlices are empty",
      NOT_READ,
    ],
  },
  {
    name: "a load balancer without an address that could not be read as it is written",
    objects: [web({ type: "LoadBalancer" }), slice([LOCAL])],
    options: { isUnseen: true },
    causes: [
      "warning load-balancer-pending: type LoadBalancer, and status.loadBalancer has no IP yet",
      NOT_READ,
    ],
    verdict: "delivered",
  },
  {
    name: "a pod of this node outside of the range of pods",
    objects: [web(), slice([endpoint("172.16.0.9", NODE_NAME), REMOTE])],
    causes: [
      "warning pod-outside-detected-range: the pod 172.16.0.9 of this node (shop/web) is outside " +
      "10.244.0.0/16: its traffic counts as traffic from outside",
    ],
    options: {
      nodeFindings: [stray("pod-outside-detected-range", "the pod 172.16.0.8 of another Service")],
    },
    verdict: "delivered",
  },
  {
    name: "a podCIDR outside of the range of pods, and the policy Local",
    objects: [loadBalancer({ externalTrafficPolicy: "Local" }), slice([LOCAL])],
    options: { nodeFindings: [stray("pod-cidr-outside-detected-range", "the podCIDR")] },
    causes: ["warning pod-cidr-outside-detected-range: the podCIDR"],
    verdict: "delivered",
  },
  {
    name: "source ranges that nft or the kernel refuses",
    objects: [loadBalancer({ loadBalancerSourceRanges: ["203.0.113.0/24"] }), slice([LOCAL])],
    options: { refusedFeatures: new Map([["source-ranges", "nft 1.0.6 refuses it"]]) },
    causes: [
      "error not-supported: refused on this node: its load-balancer IPs get no rules, since its " +
      "source ranges (loadBalancerSourceRanges) cannot be held: nft 1.0.6 refuses it",
    ],
  },
  {
    name: "a hash that nft or the kernel refuses",
    objects: [hashed(), slice([LOCAL])],
    options: { refusedFeatures: new Map([["hash", "nft 1.0.6 refuses it"]]) },
    causes: [
      "warning not-supported: not as asked on this node: its endpoints are picked at random, since " +
      "they cannot be picked by a hash: nft 1.0.6 refuses it",
    ],
    verdict: "delivered",
  },
  {
    name: "a family that the node does not have",
    objects: [web(), slice([LOCAL])],
    options: { ipFamilies: [6] },
    causes: ["error no-ip-family: no IPv4 rules: this node has no IPv4"],
  },
];

for (const { name, objects, options = {}, causes, verdict = "broken" } of BROKEN) {
  Deno.test(`explain names the cause: ${name}`, () => {
    assertEquals(causesOf(objects, options), causes);
    assertEquals(explainWeb(objects, options).verdict, verdict);
  });
}

Deno.test("each endpoint has a code", () => {
  const zone = (name: string) => ({ hints: { forZones: [{ name }] } });
  const node = (name: string) => ({ hints: { forNodes: [{ name }] } });
  const is = (...[ready, serving, terminating]: readonly boolean[]) => ({
    conditions: { ready, serving, terminating },
  });
  const cases: readonly (readonly [readonly ApiObject[], string])[] = [
    [[web(), slice([LOCAL, { ...REMOTE, ...is(false, true, false) }])], "used not-ready"],
    [[web(), slice([LOCAL, { ...REMOTE, ...is(false, true, true) }])], "used terminating"],
    [
      [web(), slice([{ ...LOCAL, ...zone("zone-a") }, { ...REMOTE, ...zone("b") }])],
      "used other-zone",
    ],
    [
      [web(), slice([{ ...LOCAL, ...node("node-1") }, { ...REMOTE, ...node("b") }])],
      "used other-node",
    ],
    [[web({ internalTrafficPolicy: "Local" }), slice([LOCAL, REMOTE])], "used not-local"],
    [[loadBalancer({ externalTrafficPolicy: "Local" }), slice([LOCAL, REMOTE])], "used used"],
    [[web(), slice([LOCAL]), slice([LOCAL], { name: "web-2" })], "used duplicate"],
  ];
  for (const [objects, expected] of cases) {
    const endpoints = explainWeb(objects).ports.flatMap((port) => port.endpoints);
    assertEquals(endpoints.map(({ code }) => code).join(" "), expected);
  }
});

Deno.test("an endpoint whose rules are older than its slice is unknown", () => {
  const old = worldOf([web(), slice([REMOTE])]).state;
  const now = worldOf([web(), slice([LOCAL, { ...REMOTE, conditions: { ready: false } }])]).state;
  const [desired] = old.desired.services.get("shop/web") ?? [];
  const [port] = now.cache.services.get("shop/web")?.ports ?? [];
  if (!desired || !port) throw new Error("no port");
  const { endpoints } = explainEndpoints({
    slices: now.cache.slicesOf("shop/web"),
    port,
    desired,
    place: { nodeName: NODE_NAME, zone: "" },
  });
  assertEquals(endpoints.map(({ code, usedFor, reason }) => [code, usedFor, reason]), [
    ["not-written", [], "chosen, but not in the rules yet"],
    ["held", ["Cluster"], "kept with the last good rules"],
  ]);
});

Deno.test("only node findings that concern the Service are shown", () => {
  const found = (services: readonly string[]) => ({ ...FINDING, services });
  const nodeFindings = [found(["shop/web"]), found(["shop/other"]), found([])];
  const report = explainWeb([web(), slice([LOCAL])], { nodeFindings });
  assertEquals(report.findings.filter(({ code }) => code === FINDING.id), [{
    severity: "warning",
    code: FINDING.id,
    message: FINDING.what,
    hint: FINDING.remedy,
  }]);
  assertEquals(report.verdict, "delivered");
});

Deno.test("a firewall that drops Services' packets concerns outside clients alone", () => {
  const drops = ["external forward"];
  const where = "chain inet hostfw forward";
  const nodeFindings = [{ ...FINDING, id: "firewall-drops-services", where, services: [], drops }];
  const told = (spec: Record<string, unknown>) =>
    explainWeb([web(spec), slice([LOCAL])], { nodeFindings }).findings
      .filter(({ code }) => code === "firewall-drops-services").length;
  assertEquals(told({ type: "NodePort", ports: [{ name: "http", port: 80, nodePort: 30080 }] }), 1);
  assertEquals(told({ externalIPs: ["192.0.2.7"] }), 1);
  assertEquals(told({}), 0);
});

Deno.test("connections that the rules refuse now are a warning, earlier ones are not", () => {
  const rejected = connectionsTo({ connections: 1200, reason: "no-endpoints" });
  const codes = (perSecond: number) =>
    causesOf([web(), slice([LOCAL])], {
      status: {
        service: "shop/web",
        state: "applied",
        since: "",
        sync: null,
        reason: "",
        rejected: [{ ...rejected, perSecond }],
      },
    });
  assertEquals(codes(39.5), [
    "warning connections-rejected: 40 connections a second to port 80/tcp (clusterIP), 1,200 in all: " +
    "rejected: no endpoints",
  ]);
  assertEquals(codes(0), []);
});
