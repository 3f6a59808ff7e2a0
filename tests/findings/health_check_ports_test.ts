import { assertEquals } from "@std/assert";
import { checkHealthCheckPorts } from "../../lib/findings/system.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { ingress, service } from "../policy/objects.ts";
import { factsOf } from "./facts.ts";

const LOCAL = service("local", {
  type: "LoadBalancer",
  externalTrafficPolicy: "Local",
  healthCheckNodePort: 30074,
  ports: [{ port: 80, nodePort: 31004 }],
}, ingress("203.0.113.23"));

function nodePort(protocol: string) {
  return service("other", {
    type: "NodePort",
    clusterIP: "10.96.0.2",
    ports: [{ name: "http", protocol, port: 80, nodePort: 30074 }],
  });
}

const found = (facts: Parameters<typeof checkHealthCheckPorts>[0]) =>
  atOnce(checkHealthCheckPorts(facts)).map(({ id, what, services }) => [id, what, services]);

Deno.test("a health-check node port that is another Service's node port names both", () => {
  assertEquals(found(factsOf([LOCAL, nodePort("TCP")])), [[
    "health-check-port-is-node-port",
    "health-check node port 30074 of default/local is the node port of default/other:http",
    ["default/local", "default/other"],
  ]]);
});

Deno.test("a UDP node port of the same number is no clash", () => {
  assertEquals(found(factsOf([LOCAL, nodePort("UDP")])), []);
});

Deno.test("a health-check node port that cannot be opened is found with the reason", () => {
  const failure = { service: "shop/taken", port: 30074, reason: "Address already in use" };
  assertEquals(found(factsOf([], { facts: { healthCheckFailures: [failure] } })), [[
    "health-check-port-taken",
    "this node cannot listen on health-check node port 30074 of shop/taken: Address already in use",
    ["shop/taken"],
  ]]);
});
