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
  NODE_ADDRESS,
  OLD,
  type Options,
  REMOTE,
  slice,
  web,
  worldOf,
} from "./cluster.ts";
import { serviceCIDR } from "../support/cluster.ts";

Deno.test("of a Service that works, explain tells addresses and endpoints, and no cause", () => {
  const report = explainWeb([web(), slice([LOCAL, REMOTE])]);
  assertEquals([report.verdict, report.summary], [
    "delivered",
    "shop/web works on this node: 1 service port, 2 endpoint addresses in use",
  ]);
  const [port] = report.ports;
  assertEquals(
    port?.endpoints.map(({ address, usedFor, code }) => [address, usedFor, code]),
    [["10.244.0.11", ["Cluster"], "used"], ["10.244.1.11", ["Cluster"], "used"]],
  );
  assertEquals(
    port?.frontends.map(({ type, address, policy, outcomes }) => [
      type,
      address,
      policy,
      outcomes.map(({ sender, verdict, masquerade }) => [sender, verdict, masquerade?.applies]),
    ]),
    [["clusterIP", "10.96.0.10", "Cluster", [
      ["pod", "dnat", false],
      ["node", "dnat", true],
      ["external", "dnat", true],
    ]]],
  );
});

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

/** Services that do not work, and the causes that are named. */
const BROKEN: readonly {
  readonly name: string;
  readonly objects: readonly ApiObject[];
  readonly options?: Options;
  readonly causes: readonly string[];
  readonly verdict?: string;
}[] = [
  {
    name: "a selector that matches nothing leaves an empty slice",
    objects: [web(), slice([])],
    causes: [
      "error selector-matches-nothing: the selector app=web matches no Pod of namespace shop: " +
      "its EndpointSlices are empty",
    ],
  },
  {
    name: "a selector that matches nothing may leave no slice at all",
    objects: [web()],
    causes: [
      "error selector-matches-nothing: the selector app=web matches no Pod of namespace shop: " +
      "there is no EndpointSlice (or kube-controller-manager does not make them)",
    ],
  },
  {
    name: "a Service without a selector, and without slices",
    objects: [web({ selector: undefined })],
    causes: [
      "error no-endpoints-given: shop/web has no selector, and nothing has made EndpointSlices " +
      "with endpoints for it",
    ],
  },
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
    name: "a target port that no container has",
    objects: [
      web({
        ports: [
          { name: "http", port: 80, targetPort: "web" },
          { name: "metrics", port: 90, targetPort: 9090 },
        ],
      }),
      slice([LOCAL, REMOTE], { ports: [{ name: "metrics", port: 9090 }] }),
    ],
    causes: [
      "error wrong-target-port: shop/web:http (IPv4): targetPort web: none of 2 endpoints has " +
      'this port (its slice has "metrics" 9090/tcp, not port "http"/tcp)',
    ],
  },
  {
    name: "no endpoint is ready",
    objects: [
      web(),
      slice([
        { ...LOCAL, conditions: { ready: false } },
        { ...REMOTE, conditions: { ready: false, serving: false, terminating: true } },
      ]),
    ],
    causes: ["error none-ready: shop/web:http (IPv4): none of 2 endpoints is ready"],
  },
  {
    name: "internal traffic policy Local without an endpoint here",
    objects: [web({ internalTrafficPolicy: "Local" }), slice([REMOTE])],
    causes: [
      "error no-local-endpoints: shop/web:http (IPv4): internal traffic policy Local, and no " +
      "ready endpoint is on this node (they are on node-2): all traffic is dropped",
    ],
  },
  {
    name: "external traffic policy Local of a node port without an endpoint here",
    objects: [
      web({
        type: "NodePort",
        externalTrafficPolicy: "Local",
        ports: [{ name: "http", port: 80, nodePort: 30080 }],
      }),
      slice([REMOTE]),
    ],
    causes: [
      "warning no-local-endpoints: shop/web:http (IPv4): external traffic policy Local, and no " +
      "ready endpoint is on this node (they are on node-2): traffic from outside is dropped",
    ],
    verdict: "delivered",
  },
  {
    name: "external traffic policy Local of a load balancer that passes this node by",
    objects: [
      loadBalancer({ externalTrafficPolicy: "Local", healthCheckNodePort: 31000 }),
      slice([REMOTE]),
    ],
    causes: [
      "warning no-local-endpoints: shop/web:http (IPv4): external traffic policy Local, and no " +
      "ready endpoint is on this node (they are on node-2): traffic from outside is dropped, and " +
      "load balancers that ask port 31000 pass this node by",
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
    name: "source ranges",
    objects: [loadBalancer({ loadBalancerSourceRanges: ["203.0.113.0/24"] }), slice([LOCAL])],
    causes: [
      "warning source-ranges: 192.0.2.10 takes connections from 203.0.113.0/24 only " +
      "(spec.loadBalancerSourceRanges); all others are dropped",
    ],
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
    name: "a scheduler beside session affinity",
    objects: [hashed({ sessionAffinity: "ClientIP" }), slice([LOCAL])],
    causes: [
      "warning scheduler-unused: session affinity decides, not consistent-hash: a new client's " +
      "endpoint is picked at random",
    ],
    verdict: "delivered",
  },
  {
    name: "a scheduler that there is not",
    objects: [hashed({}, "rr"), slice([LOCAL])],
    causes: [
      "warning part-left-out: Service shop/web: a part is left out: " +
      'metadata.annotations["signpost.dev/scheduler"] must be random or round-robin or consistent-hash, is "rr"',
    ],
    verdict: "delivered",
  },
  {
    name: "a family that the node does not have",
    objects: [web(), slice([LOCAL])],
    options: { ipFamilies: [6] },
    causes: ["error no-ip-family: no IPv4 rules: this node has no IPv4"],
  },
  {
    name: "an endpoint that is a cluster IP",
    objects: [web(), slice([{ ...REMOTE, addresses: ["10.96.0.50"] }])],
    causes: [
      "error endpoint-is-cluster-ip: the endpoint 10.96.0.50 is in the range of cluster IPs " +
      "(10.96.0.0/16): packets to it reach no pod",
    ],
  },
  {
    name: "an external IP that an older Service has",
    objects: [
      web({ externalIPs: ["192.0.2.30"] }),
      slice([LOCAL]),
      OLD,
    ],
    causes: [
      "error conflict: 192.0.2.30:80/tcp belongs to Service shop/old, which is older; " +
      "shop/web gets it when Service shop/old releases it",
    ],
  },
  {
    name: "an external IP that no Service gets",
    objects: [
      web({ externalIPs: ["10.96.0.77"] }),
      slice([LOCAL]),
      serviceCIDR({ cidrs: ["10.96.0.0/16"] }),
    ],
    causes: [
      "error conflict: 10.96.0.77:80/tcp belongs to the ServiceCIDR 10.96.0.0/16, where only " +
      "the API server gives addresses out; shop/web does not get it",
    ],
  },
  {
    name: "a Service over a limit",
    objects: [
      web({ externalIPs: Array.from({ length: 50_000 }, (_, i) => `192.0.${i >> 8}.${i & 255}`) }),
      slice([LOCAL]),
    ],
    causes: [
      "error service-refused: shop/web is refused: it costs 100,004 elements (its frontends with " +
      "their endpoints, and ports), one Service may cost 100,000 (--max-service-cost): " +
      "ask for less, or raise the limit",
    ],
  },
  {
    name: "a slice that is refused",
    objects: [web(), slice([endpoint("10.244.1.11", "node-2")], { ports: 80 })],
    causes: [
      "error slice-unused: EndpointSlice shop/web-1 (1 endpoint) is not used: refused as " +
      "malformed: ports must be a list, is 80",
    ],
  },
  {
    name: "an endpoint that is left out",
    objects: [web(), slice([LOCAL, endpoint("169.254.1.1", "node-2")])],
    causes: [
      "warning part-left-out: EndpointSlice shop/web-1: a part is left out: " +
      "endpoints[1].addresses[0] must not be a loopback, link-local, unspecified, multicast or broadcast address, is " +
      '"169.254.1.1"',
    ],
    verdict: "delivered",
  },
  {
    name: "an external IP that is left out",
    objects: [web({ externalIPs: ["", "192.0.2.30"] }), slice([LOCAL])],
    causes: [
      "warning part-left-out: Service shop/web: a part is left out: spec.externalIPs[0] must be " +
      'an IP address, is ""',
    ],
    verdict: "delivered",
  },
  {
    name: "a Service that is refused",
    objects: [web({ ports: [{ name: "http", port: 70_000 }] })],
    causes: [
      "error service-refused: shop/web is refused as malformed: spec.ports must hold at least one " +
      'usable port, is [{"name":"http","port":70000}]; spec.ports[0].port must be a number from ' +
      "1 to 65535, is 70000",
    ],
  },
  {
    name: "a Service that is not there",
    objects: [],
    causes: ["error service-not-found: Service shop/web does not exist."],
    verdict: "not-found",
  },
  {
    name: "a Service that is not there, beside one of a similar name",
    objects: [
      web({}, { metadata: { namespace: "shop", name: "wbe" } }),
      web({}, { metadata: { namespace: "shop", name: "db" } }),
    ],
    causes: ["error service-not-found: Service shop/web does not exist. Did you mean shop/wbe?"],
    verdict: "not-found",
  },
  {
    name: "a Service that is in another namespace",
    objects: [web({}, { metadata: { namespace: "production", name: "web" } })],
    causes: [
      "error service-not-found: Service shop/web does not exist. Did you mean production/web?",
    ],
    verdict: "not-found",
  },
  {
    name: "a Service without a cluster IP yet",
    objects: [web({ clusterIP: undefined })],
    causes: ["error no-cluster-ip: shop/web has no cluster IP yet: the API server gives it one"],
  },
  {
    name: "a Service of another proxy whose name is empty",
    objects: [{
      ...web(),
      metadata: {
        namespace: "shop",
        name: "web",
        labels: { "service.kubernetes.io/service-proxy-name": "" },
      },
    }],
    causes: [
      "note other-proxy: shop/web is left to another proxy: label " +
      'service.kubernetes.io/service-proxy-name=""',
    ],
    verdict: "not-proxied",
  },
  {
    name: "a headless Service",
    objects: [web({ clusterIP: "None" })],
    causes: [
      "note headless: shop/web is headless (clusterIP None): clients find its endpoints by DNS, " +
      "so it needs no rules",
    ],
    verdict: "not-proxied",
  },
  {
    name: "an ExternalName Service",
    objects: [web({ type: "ExternalName", clusterIP: undefined })],
    causes: [
      "note external-name: shop/web is a DNS alias (ExternalName): it has no address to proxy",
    ],
    verdict: "not-proxied",
  },
  {
    name: "a port that the Service does not have",
    objects: [web(), slice([LOCAL])],
    options: { port: "https" },
    causes: ["error no-such-port: the Service has no port https; it has http 80/tcp"],
  },
  {
    name: "only terminating endpoints are left",
    objects: [
      web(),
      slice([{ ...LOCAL, conditions: { ready: false, serving: true, terminating: true } }]),
    ],
    causes: [
      "warning only-terminating: shop/web:http (IPv4): all endpoints in use are terminating",
    ],
    verdict: "delivered",
  },
  {
    name: "a load balancer without an address",
    objects: [web({ type: "LoadBalancer" }), slice([LOCAL])],
    causes: [
      "warning load-balancer-pending: type LoadBalancer, and status.loadBalancer has no IP yet",
    ],
    verdict: "delivered",
  },
  {
    name: "policy Local where pods are not recognised",
    objects: [loadBalancer({ externalTrafficPolicy: "Local" }), slice([LOCAL])],
    options: { configuration: { clusterCIDRs: [] } },
    causes: [
      "warning pods-not-recognised: external traffic policy Local, and no setting says which " +
      "senders are pods: they are treated like clients from outside",
    ],
    verdict: "delivered",
  },
  {
    name: "an external IP of a family without a cluster IP, and a Node that is not known",
    objects: [web({ externalIPs: ["2001:db8::30"] }), slice([LOCAL])],
    options: { bare: true },
    causes: [
      "warning family-without-cluster-ip: 2001:db8::30 is not served: the Service has no IPv6 " +
      "cluster IP",
      "warning node-unknown: no Node node-1 was seen: its zone and addresses are not known",
    ],
    verdict: "delivered",
  },
  {
    name: "external IPs that are switched off",
    objects: [web({ externalIPs: ["192.0.2.30"] }), slice([LOCAL])],
    options: { configuration: { featureGates: { AllowServiceExternalIPs: false } } },
    causes: [
      "warning external-ips-off: externalIPs are switched off (AllowServiceExternalIPs=false)",
    ],
    verdict: "delivered",
  },
];

for (const { name, objects, options = {}, causes, verdict = "broken" } of BROKEN) {
  Deno.test(`explain names the cause: ${name}`, () => {
    assertEquals(causesOf(objects, options), causes);
    assertEquals(explainWeb(objects, options).verdict, verdict);
  });
}

Deno.test("explain says why each endpoint is used or not", () => {
  const hints = (...zones: string[]) => ({ hints: { forZones: zones.map((name) => ({ name })) } });
  const cases: readonly (readonly [string, readonly ApiObject[], readonly string[]])[] = [
    ["not ready and terminating ones are left out where a ready one is there", [
      web(),
      slice([
        LOCAL,
        endpoint("10.244.1.12", "node-2", { conditions: { ready: false } }),
        endpoint("10.244.1.13", "node-2", {
          conditions: { ready: false, serving: true, terminating: true },
        }),
        endpoint("10.244.1.14", "node-2", {
          conditions: { ready: false, serving: false, terminating: true },
        }),
      ]),
    ], [
      "10.244.0.11 used: used",
      "10.244.1.12 not-ready: not ready: its readiness probe fails",
      "10.244.1.13 terminating: terminating: it still serves, but other endpoints are ready",
      "10.244.1.14 terminating: terminating, and does not serve any more",
    ]],
    ["those of other zones", [
      web(),
      slice([{ ...LOCAL, ...hints("zone-a") }, { ...REMOTE, ...hints("zone-b", "zone-c") }]),
    ], [
      "10.244.0.11 used: used",
      "10.244.1.11 other-zone: hinted for zone zone-b, zone-c; this node is in zone-a",
    ]],
    ["those for other nodes", [
      web(),
      slice([
        { ...LOCAL, hints: { forNodes: [{ name: "node-1" }] } },
        { ...REMOTE, hints: { forNodes: [{ name: "node-2" }] } },
      ]),
    ], [
      "10.244.0.11 used: used",
      "10.244.1.11 other-node: hinted for node node-2, not for this one",
    ]],
    ["those on other nodes under policy Local", [
      web({ internalTrafficPolicy: "Local" }),
      slice([LOCAL, REMOTE]),
    ], [
      "10.244.0.11 used: used",
      "10.244.1.11 not-local: not on this node (on node-2), and the policy is Local",
    ]],
    ["those that pods may use, and clients from outside may not", [
      loadBalancer({ externalTrafficPolicy: "Local" }),
      slice([LOCAL, REMOTE]),
    ], [
      "10.244.0.11 used: used",
      "10.244.1.11 used: used; not for policy Local: on node-2",
    ]],
    ["one that stands in two slices", [
      web(),
      slice([LOCAL]),
      slice([LOCAL], { name: "web-2" }),
    ], [
      "10.244.0.11 used: used",
      "10.244.0.11 duplicate: another entry has this address and port",
    ]],
  ];
  for (const [name, objects, expected] of cases) {
    const { ports } = explainWeb(objects);
    assertEquals(
      ports.flatMap(({ endpoints }) => endpoints)
        .map(({ address, code, reason }) => `${address} ${code}: ${reason}`),
      expected,
      name,
    );
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

Deno.test("an address that another Service has is shown with its holder", () => {
  const { ports } = explainWeb([
    web({ externalIPs: ["192.0.2.30"] }),
    slice([LOCAL]),
    OLD,
  ]);
  assertEquals(
    ports[0]?.frontends.map(({ type, address, heldBy }) => [type, address, heldBy]),
    [["clusterIP", "10.96.0.10", null], ["externalIP", "192.0.2.30", "shop/old"]],
  );
});

/** The hint of one finding about `shop/web`. */
function hintOf(code: string, objects: readonly ApiObject[], options: Options = {}): string {
  return explainWeb(objects, options).findings.find((each) => each.code === code)?.hint ?? "";
}

Deno.test("the hint for a health check names an address that listens", () => {
  const objects = [
    loadBalancer({ externalTrafficPolicy: "Local", healthCheckNodePort: 32119 }),
    slice([REMOTE]),
  ];
  const hint = (nodePortAddresses: readonly string[]) =>
    hintOf("no-local-endpoints", objects, { configuration: { nodePortAddresses } });
  assertEquals(hint([]), `ask it: curl http://${NODE_ADDRESS}:32119/`);
  assertEquals(hint(["0.0.0.0/0"]), "ask it: curl http://127.0.0.1:32119/");
  assertEquals(
    hint(["198.51.100.0/24"]),
    "node ports are open on none of this node's addresses: see nodePortAddresses",
  );
});

Deno.test("a slice's port with another name than the Service's is a wrong name", () => {
  const objects = [
    web({ ports: [{ port: 80, targetPort: 8080 }] }),
    slice([LOCAL], { ports: [{ name: "http", port: 8080 }] }),
  ];
  assertEquals(causesOf(objects), [
    "error wrong-port-name: shop/web (IPv4): the Service's port has no name, and its EndpointSlices " +
    'have "http"',
  ]);
  assertEquals(
    hintOf("wrong-port-name", objects),
    "name the Service's port \"http\", or give the slice's port the name of the Service's port",
  );
});

Deno.test("node findings that concern the Service are told, and others are not", () => {
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
  const rejected = {
    namespace: "shop",
    service: "web",
    port: 80,
    protocol: "tcp",
    frontend: "clusterIP",
    connections: 1200,
    perSecond: 39.5,
    reason: "no-endpoints",
  } as const;
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
