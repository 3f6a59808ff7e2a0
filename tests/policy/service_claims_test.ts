import { assertEquals, assertMatch } from "@std/assert";
import { describeConflicts } from "../../lib/policy/service_claims.ts";
import { apiServerPort, type OwnPort } from "../../lib/policy/claims.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { ingress, node, service, slice } from "./objects.ts";
import { serviceCIDR } from "../support/cluster.ts";

const NODE_IP = "192.168.0.2";

/** A Service of 2024 with external IPs. */
function squatter(externalIPs: readonly string[], port = 80): ApiObject {
  const metadata = { creationTimestamp: "2024-01-01T00:00:00Z" };
  return service("squat", { metadata, clusterIP: "10.96.0.99", externalIPs, ports: [{ port }] });
}

/** Returns the frontends of the squatter, and the holder of the first one that it did not get. */
function squat(pipeline: Pipeline): unknown {
  const [port] = pipeline.desired.services.get("default/squat") ?? [];
  const lost = pipeline.desired.conflicts().filter(({ loser }) => loser === "default/squat");
  return [port?.externalIPs, lost.map(({ holder }) => holder)];
}

Deno.test("an old Service's external IP takes no cluster IP or load-balancer IP", () => {
  const pipeline = new Pipeline();
  const bank = service("bank", {
    type: "LoadBalancer",
    clusterIP: "10.96.0.50",
    loadBalancerSourceRanges: ["198.51.100.0/24"],
    ingress: ["192.0.2.77"],
  });
  for (const objects of [[squatter(["10.96.0.50", "192.0.2.77"]), bank], [bank]]) {
    pipeline.load([...objects, squatter(["10.96.0.50", "192.0.2.77"])]);
    const [port] = pipeline.desired.services.get("default/bank") ?? [];
    assertEquals([port?.clusterIPs, port?.loadBalancerIPs], [["10.96.0.50"], ["192.0.2.77"]]);
    assertEquals(port?.sourceRanges, ["198.51.100.0/24"]);
    assertEquals(squat(pipeline), [[], ["default/bank", "default/bank"]]);
  }
});

Deno.test("an external IP that is another's load-balancer IP has no rule", () => {
  const bank = (name: string, port: number) => {
    const spec = { type: "LoadBalancer", clusterIP: `10.96.0.${port}`, ports: [{ port }] };
    return service(name, { ...spec, ingress: ["192.0.2.77"] });
  };
  const pipeline = new Pipeline();
  const squatting = squatter(["192.0.2.77", "192.0.2.78"], 9000);
  pipeline.load([squatting]);
  assertEquals(squat(pipeline), [["192.0.2.77", "192.0.2.78"], []]);
  pipeline.load([squatting, bank("bank", 80), bank("shared", 81)]);
  assertEquals(squat(pipeline), [["192.0.2.78"], ["default/bank"]]);
  assertEquals(pipeline.desired.conflictCount, 1);
  assertEquals(pipeline.desired.services.get("default/shared")?.[0]?.loadBalancerIPs, [
    "192.0.2.77",
  ]);
  const { change } = pipeline.load([squatting, bank("shared", 81)]);
  assertEquals([...change.services.keys()].toSorted(), [
    "default/bank",
    "default/shared",
    "default/squat",
  ]);
  assertEquals(squat(pipeline), [["192.0.2.78"], ["default/shared"]]);
  pipeline.load([squatting]);
  assertEquals(squat(pipeline), [["192.0.2.77", "192.0.2.78"], []]);
});

Deno.test("an address of this node stays an external IP beside load-balancer IPs", () => {
  const pipeline = new Pipeline();
  const spec = { type: "LoadBalancer", clusterIP: "10.96.0.50", ingress: [NODE_IP] };
  const bank = service("bank", spec);
  pipeline.load([node([NODE_IP]), squatter([NODE_IP], 9000), bank]);
  assertEquals(squat(pipeline), [[NODE_IP], []]);
});

Deno.test("an external IP in a ServiceCIDR makes no rule for as long as that is one", () => {
  const pipeline = new Pipeline();
  const objects = [squatter(["10.96.0.50", "192.0.2.1"])];
  pipeline.load(objects);
  assertEquals(squat(pipeline), [["10.96.0.50", "192.0.2.1"], []]);
  const { change, conflicts } = pipeline.load([
    ...objects,
    serviceCIDR({ cidrs: ["10.96.0.0/16"] }),
  ]);
  assertEquals([...change.services.keys()], ["default/squat"]);
  assertEquals(conflicts.length, 1);
  assertEquals(squat(pipeline), [["192.0.2.1"], ["the ServiceCIDR 10.96.0.0/16"]]);
  pipeline.load(objects);
  assertEquals(squat(pipeline), [["10.96.0.50", "192.0.2.1"], []]);
});

Deno.test("an address of this node and another Service's node port make no external IP", () => {
  for (const ownAddresses of [() => [], () => ["192.168.0.3"]]) {
    const pipeline = new Pipeline({
      ownAddresses,
      configuration: { nodePortAddresses: ["192.168.0.0/24"] },
    });
    const web = service("web", {
      type: "NodePort",
      clusterIP: "10.96.0.50",
      ports: [{ port: 80, nodePort: 30080 }],
    });
    const squatting = squatter([NODE_IP, "192.168.0.3", "192.168.0.4"], 30080);
    pipeline.load([node([NODE_IP]), squatting]);
    assertEquals(squat(pipeline), [[NODE_IP, "192.168.0.3", "192.168.0.4"], []]);
    pipeline.load([node([NODE_IP]), squatting, web]);
    const free = ownAddresses().length > 0 ? ["192.168.0.4"] : ["192.168.0.3", "192.168.0.4"];
    assertEquals(squat(pipeline), [free, Array(3 - free.length).fill("default/web")]);
    assertEquals(pipeline.desired.services.get("default/web")?.[0]?.nodePort, 30080);
    pipeline.load([node(["192.168.0.4"]), squatting, web]);
    assertEquals((squat(pipeline) as string[][])[0]?.includes("192.168.0.4"), false);
  }
});

Deno.test("a pod's new interface does not cause a new look at claims", () => {
  let ownAddresses = [NODE_IP, "fe80::1"];
  const pipeline = new Pipeline({ ownAddresses: () => ownAddresses });
  pipeline.load([squatter([NODE_IP])]);
  let looks = 0;
  const objects = new Proxy(pipeline.cache, {
    get: (cache, name) => {
      if (name === "services") looks++;
      const value: unknown = Reflect.get(cache, name, cache);
      return typeof value === "function" ? value.bind(cache) : value;
    },
  });
  const looksAfter = (addresses: string[]) => {
    [ownAddresses, looks] = [addresses, 0];
    pipeline.desired.update(objects, { services: new Set(), node: true });
    return looks;
  };
  assertEquals(looksAfter([NODE_IP, "fe80::1", "fe80::2"]), 0);
  assertEquals(looksAfter([NODE_IP, "192.0.2.7"]) > 0, true);
});

const API = apiServerPort("192.0.2.6", 6443);
const HEALTH: OwnPort = {
  isApiServer: false,
  holder: "health",
  because: "x",
  address: undefined,
  port: 10256,
};

Deno.test("what this process needs itself becomes no frontend, whatever object asks", () => {
  const pipeline = new Pipeline({ ownPorts: () => [API, HEALTH] });
  const ports = [{ name: "a", port: 6443 }, { name: "b", port: 10256, nodePort: 10256 }];
  const addresses = { clusterIP: "192.0.2.6", externalIPs: [NODE_IP], ingress: ["192.0.2.6"] };
  const greedy = service("greedy", { type: "LoadBalancer", ...addresses, ports });
  pipeline.load([node([NODE_IP]), greedy]);
  const frontends = pipeline.desired.services.get("default/greedy")?.map((port) => [
    port.port,
    ...port.clusterIPs,
    ...port.loadBalancerIPs,
    ...port.externalIPs,
    port.nodePort,
  ]);
  assertEquals(frontends, [[6443, NODE_IP, 0], [10256, "192.0.2.6", 0]]);
  assertEquals(pipeline.desired.conflicts().map(({ claim, holder }) => `${claim}: ${holder}`), [
    "192.0.2.6 . tcp . 6443: the API server",
    `${NODE_IP} . tcp . 10256: health`,
    "IPv4 node port tcp . 10256: health",
  ]);
});

Deno.test("an API server on this node is not to be had by a node port either", () => {
  const own = { ...API, address: "127.0.0.1" };
  const pipeline = new Pipeline({ ownPorts: () => [own], ownAddresses: () => ["127.0.0.1"] });
  const ports = [{ port: 80, nodePort: 6443 }];
  pipeline.load([service("web", { type: "NodePort", ports })]);
  assertEquals(pipeline.desired.services.get("default/web")?.[0]?.nodePort, 0);
});

/** The Service `default/NAME` in front of the API servers, and its slice with these endpoints. */
function front(name: string, spec: Record<string, unknown>, endpoints: readonly string[]) {
  const ports = [{ name: "api", port: 6443, targetPort: 6443 }];
  const status = "externalIPs" in spec || spec["clusterIP"] === "192.0.2.6"
    ? undefined
    : ingress("192.0.2.6");
  return [
    service(name, { clusterIP: "10.96.0.40", ports, ...spec }, status),
    ...endpoints.length === 0 ? [] : [apiSlice(name, endpoints)],
  ];
}

function apiSlice(name: string, addresses: readonly string[]): ApiObject {
  return slice(name, [], {
    ports: [{ name: "api", protocol: "TCP", port: 6443 }],
    endpoints: addresses.map((each) => ({ addresses: [each], conditions: { ready: false } })),
  });
}

const LOAD_BALANCER = { type: "LoadBalancer" };
const SERVERS = [service("kubernetes", { clusterIP: "10.96.0.1", ports: [{ port: 443 }] })]
  .concat(apiSlice("kubernetes", ["192.0.2.7", "192.0.2.8"]));

for (
  const [what, objects, isServed] of [
    ["the API servers", [...SERVERS, ...front("vip", LOAD_BALANCER, ["192.0.2.8"])], true],
    ["another program", [...SERVERS, ...front("vip", LOAD_BALANCER, ["192.0.2.9"])], false],
    ["nothing", [...SERVERS, ...front("vip", LOAD_BALANCER, [])], false],
    ["API servers that are not published", front("vip", LOAD_BALANCER, ["192.0.2.8"]), true],
    [
      "the API servers, as an external IP",
      [...SERVERS, ...front("vip", { externalIPs: ["192.0.2.6"] }, ["192.0.2.8"])],
      false,
    ],
    [
      "the API servers, as a cluster IP",
      [...SERVERS, ...front("vip", { clusterIP: "192.0.2.6" }, ["192.0.2.8"])],
      true,
    ],
    [
      "unpublished API servers, as a cluster IP",
      front("vip", { clusterIP: "192.0.2.6" }, ["192.0.2.8"]),
      false,
    ],
  ] as const
) {
  Deno.test(`the API server's address is ${isServed ? "" : "not "}served: to ${what}`, () => {
    const pipeline = new Pipeline({ ownPorts: () => [API] });
    pipeline.load(objects);
    const [port] = pipeline.desired.services.get("default/vip") ?? [];
    const vips = [port?.clusterIPs, port?.loadBalancerIPs, port?.externalIPs].flat();
    assertEquals(vips.includes("192.0.2.6"), isServed);
    assertEquals(pipeline.desired.conflicts().length, isServed ? 0 : 1);
  });
}

Deno.test("no external IP takes the port of an API server that default/kubernetes names", () => {
  const pipeline = new Pipeline({ ownPorts: () => [API] });
  pipeline.load([...SERVERS, squatter(["192.0.2.7"], 6443)]);
  assertEquals(squat(pipeline), [[], ["the API server"]]);
});

Deno.test("API servers that come later make a Service before them no theft", () => {
  const pipeline = new Pipeline({ ownPorts: () => [API] });
  const vip = front("vip", LOAD_BALANCER, ["192.0.2.9"]);
  const held = () => pipeline.desired.services.get("default/vip")?.[0]?.loadBalancerIPs;
  pipeline.load([...SERVERS, ...vip]);
  assertEquals(held(), []);
  pipeline.load([...SERVERS.slice(0, 1), apiSlice("kubernetes", ["192.0.2.9"]), ...vip]);
  assertEquals(held(), ["192.0.2.6"]);
});

Deno.test("new addresses of the API server take what a Service had there", () => {
  let ownPorts: readonly OwnPort[] = [];
  const pipeline = new Pipeline({ ownPorts: () => ownPorts });
  pipeline.load([squatter(["192.0.2.6"], 6443)]);
  assertEquals(squat(pipeline), [["192.0.2.6"], []]);
  ownPorts = [API];
  const step = pipeline.desired.update(pipeline.cache, { services: new Set(), node: true });
  assertEquals([...step.change.services.keys()], ["default/squat"]);
  assertEquals(squat(pipeline), [[], ["the API server"]]);
});

Deno.test("one line tells of any number of conflicts", () => {
  const conflicts = Array.from({ length: 100_000 }, (_, i) => ({
    claim: `claim-${i}`,
    holder: i === 0 ? "the API server" : "ns/a",
    because: "which is older",
  }));
  const text = describeConflicts(conflicts);
  assertMatch(
    text,
    /^claim-0 belongs to the API server, which is older; claim-1 belongs to Service/,
  );
  assertMatch(text, /claim-4 belongs to Service ns\/a, which is older; … and 99,995 more$/);
});

Deno.test("no Service takes a port of the node where a program listens", () => {
  const socket = (address: string, port: number, protocol: "tcp" | "udp" = "tcp") =>
    ({ address, port, protocol }) as const;
  const pipeline = new Pipeline({
    ownAddresses: () => [NODE_IP, "192.0.2.77", "2001:db8::1"],
    listeningSockets: () => [
      socket("::", 22),
      socket("0.0.0.0", 8472, "udp"),
      socket("192.0.2.77", 179),
      socket("127.0.0.1", 53),
    ],
  });
  const PROGRAM = "a program of this node";
  const external = (address: string, port: number) => {
    pipeline.load([node([NODE_IP]), squatter([address], port)]);
    return squat(pipeline);
  };
  assertEquals(external(NODE_IP, 22), [[], [PROGRAM]]);
  assertEquals(external("192.0.2.77", 22), [[], [PROGRAM]]);
  assertEquals(external("192.0.2.77", 179), [[], [PROGRAM]]);
  for (const port of [179, 53, 8472]) assertEquals(external(NODE_IP, port), [[NODE_IP], []]);
  assertEquals(external("192.0.2.9", 22), [["192.0.2.9"], []]);
  const balanced = (address: string, port: number) => {
    const spec = { type: "LoadBalancer", clusterIP: "10.96.0.99", ports: [{ port }] };
    pipeline.load([node([NODE_IP]), service("squat", spec, ingress(address))]);
    return pipeline.desired.services.get("default/squat")?.[0]?.loadBalancerIPs;
  };
  assertEquals(balanced(NODE_IP, 22), []);
  assertEquals(balanced("192.0.2.77", 179), []);
  assertEquals(balanced("192.0.2.77", 22), ["192.0.2.77"]);
});

Deno.test("an external IP at the node takes no health-check node port", () => {
  const spec = {
    type: "LoadBalancer",
    clusterIP: "10.96.0.50",
    externalTrafficPolicy: "Local",
    healthCheckNodePort: 32000,
  };
  const bank = service("bank", spec, ingress("192.0.2.77"));
  const pipeline = new Pipeline({ ownAddresses: () => [NODE_IP, "192.0.2.77"] });
  for (const address of [NODE_IP, "192.0.2.77"]) {
    pipeline.load([node([NODE_IP]), squatter([address], 32000), bank]);
    assertEquals(squat(pipeline), [[], ["default/bank"]], address);
    pipeline.load([node([NODE_IP]), squatter([address], 32000)]);
    assertEquals(squat(pipeline), [[address], []], address);
  }
});
