import { assertEquals, assertLess } from "@std/assert";
import { partialScript } from "../../../../lib/backend/iptables/script/script.ts";
import { serviceRules } from "../../../../lib/backend/iptables/script/service_rules.ts";
import { FAMILIES } from "../../../../lib/model/values/address.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  StateChange,
} from "../../../../lib/model/kernel/desired.ts";
import { NODE as ANY_NODE } from "../../../conntrack/states.ts";
import { destination, servicePort as buildPort } from "../../../support/cluster.ts";

const OPTIONS = { families: FAMILIES, tcpBeLiberal: false };
const FAMILY = {
  ...ANY_NODE.families[4],
  localDetector: { type: "cidr", cidr: "10.244.0.0/16" },
} as const;
const NODE = { ...ANY_NODE, families: { ...ANY_NODE.families, 4: FAMILY } };

function servicePort(changes: Partial<DesiredServicePort> = {}): DesiredServicePort {
  const clusterEndpoints = [1, 2, 3].map((n) =>
    destination(`10.244.0.${n}`, { local: n === 1, hairpin: n === 1 })
  );
  return buildPort({
    name: "ns/web:http",
    clusterIPs: ["10.96.0.1"],
    clusterEndpoints,
    ...changes,
  });
}

function step(before: readonly DesiredServicePort[], after: readonly DesiredServicePort[]): string {
  const services = new Map([["ns/web", { before, after }]]);
  const state = { node: NODE, services: new Map([["ns/web", after]]) };
  const script = partialScript({ node: undefined, services }, state, OPTIONS);
  if (!script) throw new Error("the node did not change");
  return script.text;
}

Deno.test("a step that changes nothing in the kernel has no text and no operations", () => {
  const services = new Map([["ns/web", { before: [servicePort()], after: [servicePort()] }]]);
  const state = { node: NODE, services: new Map() };
  const script = partialScript({ node: undefined, services }, state, OPTIONS);
  assertEquals(script?.text, "");
  assertEquals(script?.operations, 0);
});

Deno.test("an address that moves to another service changes hands in one step", () => {
  const other = servicePort({ name: "ns/other:http" });
  const text = step([servicePort()], [other]);
  const moved = text.match(/^-[DI] KUBE-SERVICES -d \S+/gm);
  assertEquals(moved, [
    "-D KUBE-SERVICES -d 10.96.0.1/32",
    "-I KUBE-SERVICES -d 10.96.0.1/32",
  ]);
});

Deno.test("the size of a step does not follow the number of services", () => {
  const before = [servicePort()];
  const after = [servicePort({ clusterEndpoints: servicePort().clusterEndpoints.slice(1) })];
  const services = new Map(Array.from({ length: 1000 }, (_, i) => [`ns/s${i}`, before] as const));
  const change: StateChange = {
    node: undefined,
    services: new Map([["ns/s5", { before, after }]]),
  };
  const script = partialScript(change, { node: NODE, services }, OPTIONS);
  assertLess(script?.text.length ?? Infinity, 1000);
});

Deno.test("a change of the node needs a full script, but one of the ServiceCIDRs does not", () => {
  const state = { node: NODE, services: new Map() };
  const partial = (after: DesiredNode) =>
    partialScript({ node: { before: NODE, after }, services: new Map() }, state, OPTIONS);
  assertEquals(partial({ ...NODE, masqueradeAll: true }), undefined);
  assertEquals(partial({ ...NODE, families: { ...NODE.families, 6: FAMILY } }), undefined);
  const families = { ...NODE.families, 4: { ...FAMILY, guardedCIDRs: ["10.96.0.0/12"] } };
  assertEquals(partial({ ...NODE, families })?.text, "");
});

Deno.test("the probe of a load balancer is let in at its health check node port", () => {
  const { shared } = serviceRules(servicePort({ healthCheckNodePort: 32000 }), NODE);
  assertEquals(shared.find(({ chain }) => chain === "KUBE-NODEPORTS"), {
    table: "filter",
    chain: "KUBE-NODEPORTS",
    rule:
      '-p tcp -m comment --comment "ns/web:http health check node port" -m tcp --dport 32000 -j ACCEPT',
    place: "last",
  });
});
