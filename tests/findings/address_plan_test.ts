import { assertEquals } from "@std/assert";
import { checkAddressPlan } from "../../lib/findings/addresses.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { node, service, slice } from "../policy/objects.ts";
import type { ApiObject } from "../support/pipeline.ts";
import { factsOf } from "./facts.ts";

/** What is found with a ServiceCIDR, the Service `default/web` and its endpoint. */
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
  const cidrs = { kind: "ServiceCIDR", metadata: { name: "kubernetes" }, spec: { cidrs: [cidr] } };
  const facts = factsOf(
    [cidrs, service("web", { clusterIP }), slice("web", [endpoint]), ...objects],
    { facts: { apiServerAddresses: apiServers }, configuration: { clusterCIDRs } },
  );
  return atOnce(checkAddressPlan(facts)).map(({ id, what, services }) => [id, what, services]);
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
