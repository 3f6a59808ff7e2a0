import { assertEquals } from "@std/assert";
import type { ServiceConnections } from "../../../lib/model/connections.ts";
import type { DesiredServicePort } from "../../../lib/model/kernel/desired.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import {
  findServices,
  type FoundServices,
  readQuery,
  routesOf,
} from "../../../lib/observe/page/data.ts";
import { CONNECTIONS, endpoint, servicePort } from "./contents.ts";

interface Search {
  readonly connections?: readonly ServiceConnections[];
  readonly services?: ReadonlyMap<string, readonly DesiredServicePort[]>;
}

const SERVICES = new Map([
  ["shop/web", [servicePort({ nodePort: 30080 })]],
  ["shop/search", [
    servicePort({ name: "shop/search:api", clusterIPs: ["10.96.0.77", "fd00::77"] }),
  ]],
  ["kube-system/dns", [
    servicePort({
      name: "kube-system/dns:dns",
      protocol: "udp",
      clusterEndpoints: [endpoint("10.244.9.9")],
    }),
  ]],
]);

function find(search: string, { connections = [], services = SERVICES }: Search = {}) {
  return atOnce(
    findServices(services, { query: readQuery(search), connections, historyOf: () => [] }),
  );
}

function names({ services }: FoundServices): string[] {
  return services.map(({ name }) => name);
}

Deno.test("without words every Service matches, by name", () => {
  assertEquals(names(find("")), ["kube-system/dns", "shop/search", "shop/web"]);
});

Deno.test("a Service is found by name, address, port, protocol and endpoint, in any case", () => {
  const found = (words: string) => names(find(`?q=${encodeURIComponent(words)}`));
  assertEquals(found("SHOP"), ["shop/search", "shop/web"]);
  assertEquals(found("shop api"), ["shop/search"]);
  assertEquals(found("[fd00::77]:80"), ["shop/search"]);
  assertEquals(found(":30080/tcp"), ["shop/web"]);
  assertEquals(found("/udp"), ["kube-system/dns"]);
  assertEquals(found("10.244.9.9:8080"), ["kube-system/dns"]);
  assertEquals(found("shop dns"), []);
});

Deno.test("an unknown order is the order by name", () => {
  assertEquals(readQuery("?q=%zz&sort=upwards"), { words: "%zz", sort: "name" });
  assertEquals(readQuery(`?q=${"x".repeat(300)}`).words.length, 200);
});

Deno.test("of many matches the first are shown and all are counted", () => {
  const services = new Map(
    Array.from({ length: 812 }, (_, i) => [`shop/s${i}`, [servicePort()]] as const),
  );
  const { matches, services: shown } = find("", { services });
  assertEquals([matches, shown.length, shown[0]?.name], [812, 30, "shop/s0"]);
});

Deno.test("the connections of a Service are summed", () => {
  const { services } = find("?sort=connections", { connections: CONNECTIONS.services });
  assertEquals(services.map(({ name, connections }) => [name, connections]), [
    ["shop/web", "317/s, 185,180 connections"],
    ["kube-system/dns", "0/s, 1 connection"],
    ["shop/search", ""],
  ]);
});

Deno.test("badges name what is special about a Service, each once", () => {
  const port = servicePort({ affinitySeconds: 600, externalTrafficPolicy: "Local" });
  const { services } = find("", { services: new Map([["shop/web", [port, port]]]) });
  assertEquals(services[0]?.badges, ["session affinity 10m", "external policy Local"]);
});

Deno.test("traffic goes by the policy of its frontend", () => {
  const routes = (changes: Partial<DesiredServicePort>) =>
    routesOf(servicePort({ nodePort: 30080, loadBalancerIPs: ["192.0.2.7"], ...changes }))
      .map(({ policy, frontends, endpoints, refusal }) =>
        `${policy}: ${frontends.join(", ")} > ${
          endpoints.map(({ text }) => text).join(" ") || refusal
        }`
      );
  const cluster = "10.96.0.10:80/tcp cluster IP";
  const outside = "192.0.2.7:80/tcp load balancer, node:30080/tcp node port";
  const both = "10.244.0.7:8080 10.244.1.9:8080";
  assertEquals(routes({}), [`Cluster: ${cluster}, ${outside} > ${both}`]);
  assertEquals(
    routes({ externalTrafficPolicy: "Local", localEndpoints: [endpoint("10.244.0.7", true)] }),
    [`Cluster: ${cluster} > ${both}`, `Local: ${outside} > 10.244.0.7:8080`],
  );
  assertEquals(routes({ externalTrafficPolicy: "Local" }), [
    `Cluster: ${cluster} > ${both}`,
    `Local: ${outside} > dropped`,
  ]);
  assertEquals(routes({ clusterEndpoints: [], hasEndpoints: false }), [
    `Cluster: ${cluster}, ${outside} > rejected`,
  ]);
  assertEquals(routesOf(servicePort({ clusterIPs: [] })), []);
});

Deno.test("of many endpoints and frontends the first are listed and all are counted", () => {
  const [route] = routesOf(servicePort({
    externalIPs: Array.from({ length: 80 }, (_, i) => `192.0.2.${i}`),
    clusterEndpoints: Array.from({ length: 240 }, (_, i) => endpoint(`10.244.1.${i}`)),
  }));
  assertEquals([route?.endpoints.length, route?.endpointCount], [50, 240]);
  assertEquals([route?.frontends.length, route?.frontends.at(-1)], [21, "and 61 more"]);
});

Deno.test("the first of many service ports are listed", () => {
  const ports = Array.from({ length: 12 }, () => servicePort());
  const { services: [service] } = find("", { services: new Map([["shop/web", ports]]) });
  assertEquals([service?.routes.length, service?.badges], [10, ["2 service ports more"]]);
});
