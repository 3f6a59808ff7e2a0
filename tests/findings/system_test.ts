import { assertEquals } from "@std/assert";
import type { ApiFailure, NodeFacts } from "../../lib/findings/facts.ts";
import {
  checkApiServer,
  checkForwarding,
  checkHealthCheckPorts,
  checkMovedConnections,
  checkRouteLocalnet,
  checkSystem,
} from "../../lib/findings/system.ts";
import { factsOf, listOf } from "./facts.ts";
import { ingress, service, slice } from "../policy/objects.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { type ApiObject, NODE_NAME } from "../support/pipeline.ts";

function said(facts: Partial<NodeFacts>): string[] {
  return listOf(checkSystem(factsOf([], { facts }))).map(({ id, what }) => `${id}: ${what}`);
}

Deno.test("the rules and processes of another proxy are named", () => {
  const rival = { rules: ["table ip kube-proxy"], processes: ["kube-proxy (pid 4711)"] };
  assertEquals(said({ rival }), [
    "another-proxy: another proxy keeps writing its rules on this node: table ip kube-proxy " +
    "(kube-proxy (pid 4711))",
  ]);
});

Deno.test("signpost must restart after a proxy whose process it does not see", () => {
  const remedies = (processes: readonly string[]) => {
    const rival = { rules: ["table ip kube-proxy"], processes };
    return listOf(checkSystem(factsOf([], { facts: { rival } })))
      .map(({ remedy }) => remedy.replace(/^.* in kube-system[.,] ?/, ""));
  };
  assertEquals(remedies(["kube-proxy (pid 4711)"]), ["signpost then removes its rules."]);
  assertEquals(remedies([]), [
    "or the program that restores its rules, such as netfilter-persistent. Then start signpost " +
    "again: it removes the rules at its start.",
  ]);
});

Deno.test("a change of our rules by another program is named", () => {
  const begin = "rules-changed: another program has changed our rules:";
  assertEquals(said({ drift: { missing: "rules of iptables nat", added: "", by: "" } }), [
    `${begin} missing: rules of iptables nat`,
  ]);
  assertEquals(said({ drift: { missing: "", added: "rule of services", by: "nft (pid 4711)" } }), [
    `${begin} added: rule of services; by nft (pid 4711)`,
  ]);
});

Deno.test("a table of connection tracking is almost full from nine tenths on", () => {
  const withEntries = (entries: number) =>
    said({ system: { couldUseNftables: false, conntrack: { entries, max: 100 } } });
  assertEquals(withEntries(89), []);
  assertEquals(withEntries(90), [
    "conntrack-table-almost-full: connection tracking has 90 of 100 entries",
  ]);
});

Deno.test("a kernel setting that was refused is named with the line to type", () => {
  const name = "net.netfilter.nf_conntrack_max";
  const settingFailures = [{ name, value: 131_072, reason: "Read-only file system" }];
  const [found] = checkSystem(factsOf([], { facts: { settingFailures } }));
  assertEquals([found?.id, found?.where], ["kernel-setting-refused", name]);
  assertEquals(found?.remedy.includes(`sysctl -w ${name}=131072`), true);
});

/** Returns the findings on a value of route_localnet. */
function saidOfRouteLocalnet(
  routeLocalnet: string,
  options: Parameters<typeof factsOf>[1],
): string[] {
  const system = { couldUseNftables: false, routeLocalnet };
  return listOf(checkRouteLocalnet(factsOf([], { ...options, facts: { system } }))).map(({ id }) =>
    id
  );
}

Deno.test("node ports on localhost in iptables mode need route_localnet", () => {
  assertEquals(saidOfRouteLocalnet("0", { mode: "iptables" }), ["route-localnet-off"]);
  assertEquals(saidOfRouteLocalnet("1", { mode: "iptables" }), []);
  const nodePortAddresses = ["192.0.2.0/24"];
  assertEquals(
    saidOfRouteLocalnet("0", { mode: "iptables", configuration: { nodePortAddresses } }),
    [],
  );
});

Deno.test("nftables mode does not need route_localnet", () => {
  assertEquals(saidOfRouteLocalnet("1", { mode: "nftables" }), ["route-localnet-on"]);
  assertEquals(saidOfRouteLocalnet("0", { mode: "nftables" }), []);
});

function refusals(failures: readonly ApiFailure[], warnings: readonly string[] = []): unknown[] {
  const apiServer = { where: "https://api:6443", warnings, failures };
  return listOf(checkApiServer(factsOf([], { facts: { apiServer } })))
    .map(({ id, what, where }) => [id, what, where]);
}

Deno.test("a server that cannot be reached is one finding, whatever was asked", () => {
  const failures = ["Service", "Node"].map((kind) => ({
    kind,
    message: "connection refused",
    isRefusal: false,
  }));
  assertEquals(refusals(failures), [
    ["api-server-unreachable", "connection refused", "https://api:6443"],
  ]);
});

Deno.test("a slow server is a warning", () => {
  const slow = { kind: "Node", message: "answered after 1.4 s", isRefusal: false, isSlow: true };
  const refused = { kind: "ServiceCIDR", message: "403", isRefusal: true, isOptional: true };
  assertEquals(refusals([slow, refused]), [
    ["api-server-slow", "answered after 1.4 s", "https://api:6443"],
    ["optional-objects-refused", "403", "ServiceCIDR"],
  ]);
});

Deno.test("objects that take too much memory are a finding", () => {
  const excess = { kind: "EndpointSlice", key: "shop/web-1", reason: "too many" } as const;
  const found = listOf(checkApiServer(factsOf([], { facts: { excess } })));
  assertEquals(found.map(({ id, what, where }) => [id, what, where]), [
    ["objects-without-memory", "too many", "EndpointSlice"],
  ]);
});

Deno.test("each kind that the server refuses is a finding", () => {
  const failures = ["Service", "Node"].map((kind) => ({
    kind,
    message: `${kind}: 403`,
    isRefusal: true,
  }));
  assertEquals(refusals(failures), [
    ["api-server-refuses", "Service: 403", "Service"],
    ["api-server-refuses", "Node: 403", "Node"],
  ]);
});

Deno.test("an unsafe way to the server is a finding", () => {
  assertEquals(refusals([], ["insecure-skip-tls-verify is set"]), [
    ["api-access-unsafe", "insecure-skip-tls-verify is set", "https://api:6443"],
  ]);
});

Deno.test("a server that answers is not a finding", () => {
  assertEquals(refusals([]), []);
});

const LOCAL = service("local", {
  type: "LoadBalancer",
  externalTrafficPolicy: "Local",
  healthCheckNodePort: 30074,
  ports: [{ port: 80, nodePort: 31004 }],
}, ingress("203.0.113.23"));

function nodePort(protocol: string) {
  return service("another", {
    type: "NodePort",
    clusterIP: "10.96.0.2",
    ports: [{ name: "http", protocol, port: 80, nodePort: 30074 }],
  });
}

const healthChecks = (facts: Parameters<typeof checkHealthCheckPorts>[0]) =>
  listOf(checkHealthCheckPorts(facts)).map(({ id, what, services }) => [id, what, services]);

Deno.test("a health-check node port that is another's node port names both Services", () => {
  assertEquals(healthChecks(factsOf([LOCAL, nodePort("TCP")])), [[
    "health-check-port-is-node-port",
    "health-check node port 30074 of default/local is the node port of default/another:http",
    ["default/local", "default/another"],
  ]]);
});

Deno.test("a UDP node port of the same number is not a conflict", () => {
  assertEquals(healthChecks(factsOf([LOCAL, nodePort("UDP")])), []);
});

const HASHED = { annotations: { "signpost.dev/scheduler": "consistent-hash" } };

function hashed(name: string, spec: Record<string, unknown>): ApiObject {
  const object = service(name, spec);
  return { ...object, metadata: { ...object.metadata, ...HASHED } };
}

function servicesOf(objects: readonly ApiObject[], tcpBeLiberal = false): readonly string[] {
  const conntrack = { ...DEFAULTS.conntrack, tcpBeLiberal };
  return listOf(checkMovedConnections(factsOf(objects, { configuration: { conntrack } })))
    .flatMap(({ services }) => services);
}

const EXTERNAL = [
  hashed("web", { externalIPs: ["192.0.2.1"] }),
  hashed("api", { clusterIP: "10.96.0.2", externalIPs: ["192.0.2.2"] }),
];

Deno.test("Services with external addresses that are spread by a hash are one finding", () => {
  assertEquals(servicesOf(EXTERNAL).toSorted(), ["default/api", "default/web"]);
});

Deno.test("a liberal conntrack takes moved connections, so nothing is found", () => {
  assertEquals(servicesOf(EXTERNAL, true), []);
});

Deno.test("a hash without external addresses is not a finding", () => {
  assertEquals(servicesOf([hashed("web", {})]), []);
});

/** Returns the findings on kernel settings for a Service with an endpoint of this node. */
function lost(system: Partial<NonNullable<NodeFacts["system"]>>, local = true): string[] {
  const node = local ? NODE_NAME : "node-2";
  const endpoints = [{ addresses: ["10.244.0.11"], nodeName: node }];
  const objects = [service("web"), slice("web", [], { endpoints })];
  const facts = {
    system: { couldUseNftables: false, ...system },
    interfaceAddresses: ["192.0.2.1"],
  };
  return listOf(checkForwarding(factsOf(objects, { facts }))).map(({ where }) => where);
}

Deno.test("forwarding that is off is found in the family that has endpoints", () => {
  assertEquals(lost({ forwards: { 4: false, 6: false } }), ["net.ipv4.ip_forward"]);
  assertEquals(lost({ forwards: { 4: true, 6: false } }), []);
});

Deno.test("a bridge without connection tracking is found if it has local endpoints", () => {
  const off = {
    filtersBridges: { 4: false, 6: false },
    bridges: ["172.17.0.0/16", "10.244.0.0/24"],
  };
  assertEquals(lost(off), ["net.bridge.bridge-nf-call-iptables"]);
  assertEquals(lost(off, false), []);
  assertEquals(lost({ ...off, bridges: ["172.17.0.0/16"] }), []);
});
