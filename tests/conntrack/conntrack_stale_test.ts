import { assertEquals } from "@std/assert";
import { parseEntry } from "../../lib/conntrack/tool.ts";
import { addSuspects, findingStale, type Suspects } from "../../lib/conntrack/conntrack.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
} from "../../lib/model/kernel/desired.ts";
import type { Protocol } from "../../lib/model/cluster/objects.ts";
import type { Family } from "../../lib/model/values/address.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { flow, formatFlow } from "./fake_conntrack.ts";
import { changeOf, NODE, servicePort, stateOf } from "./states.ts";

const A = "10.244.0.1:5353";
const B = "10.244.0.2:5353";
const VIP = "10.96.0.10:53";
const CLIENT = "10.0.0.1:1000";
const LOCAL = "192.0.2.10";

interface Step {
  readonly before: readonly DesiredServicePort[];
  readonly after: readonly DesiredServicePort[];
  readonly node?: DesiredNode;
}

type AllSuspects = Readonly<Record<Family, Suspects>>;

function suspects({ before, after, node = NODE }: Step): AllSuspects {
  const found: AllSuspects = { 4: new Map(), 6: new Map() };
  const { services } = changeOf(stateOf(before, node), stateOf(after, node));
  for (const change of services.values()) addSuspects(found, change);
  return found;
}

/** Which of the flows, given as `flow` takes them, are stale. */
function staleOf(suspects: AllSuspects, state: DesiredState, flows: readonly string[]): string[] {
  return flows.filter((text) => {
    const [words = "", zone] = text.split(" zone ");
    const protocol = protocolOf(state);
    const entry = parseEntry(formatFlow({ ...flow(words, Number(zone ?? 0)), protocol }));
    if (!entry) throw new Error(`this is no flow: ${text}`);
    const { family } = entry;
    const localAddresses = new Set([LOCAL, "127.0.0.1"]);
    const options = { family, suspects: suspects[family], state, localAddresses };
    return atOnce(findingStale([entry], options)).length > 0;
  });
}

/** Returns the protocol of the state's first service port. */
function protocolOf({ services }: DesiredState): Protocol {
  const [port] = services.values().flatMap((ports) => ports);
  return port?.protocol ?? "udp";
}

function stale(step: Step, flows: readonly string[]): string[] {
  return staleOf(suspects(step), stateOf(step.after, step.node), flows);
}

const TO_A = `${CLIENT} > ${VIP} > ${A}`;
const TO_B = `${CLIENT} > ${VIP} > ${B}`;
const PAST = `${CLIENT} > ${VIP}`;
const ELSEWHERE = [
  `${CLIENT} > 10.96.0.10:54 > ${A}`,
  `${CLIENT} > 10.96.0.11:53 > ${A}`,
  `${CLIENT} > ${A}`,
  `${CLIENT} > 8.8.8.8:53`,
  `${A} > ${VIP.replace("10.96", "10.97")} > 10.244.9.9:5353`,
];

Deno.test("flows to the endpoints of a removed Service are stale", () => {
  const step = { before: [servicePort([A])], after: [] };
  const foreign = `${CLIENT} > ${VIP} > 172.17.0.2:53`;
  assertEquals(stale(step, [TO_A, PAST, foreign, ...ELSEWHERE]), [TO_A]);
});

Deno.test("external and load-balancer IPs are compared in both families", () => {
  const addresses = { externalIPs: ["203.0.113.1"], loadBalancerIPs: ["203.0.113.2"] };
  const six = { family: 6, clusterIPs: ["fd00:10:96::10"] } as const;
  const step = {
    before: [servicePort([A, B], addresses), servicePort(["[fd00:10:244::1]:53"], six)],
    after: [servicePort([B], addresses), servicePort([], six)],
  };
  const expected = [
    `${CLIENT} > 203.0.113.1:53 > ${A}`,
    `${CLIENT} > 203.0.113.2:53 > ${A}`,
    "[fd00::1]:1000 > [fd00:10:96::10]:53 > [fd00:10:244::1]:53",
  ];
  assertEquals(stale(step, [...expected, `${CLIENT} > 203.0.113.1:53 > ${B}`]), expected);
});

Deno.test("a flow stays on an endpoint that serves, whatever list it is in", () => {
  const [other] = servicePort([A]).clusterEndpoints;
  if (!other) throw new Error("the service port has an endpoint");
  const step = {
    before: [servicePort([A, "10.244.0.3:5353"])],
    after: [servicePort([B], { otherServingEndpoints: [other] })],
  };
  assertEquals(stale(step, [TO_A, TO_B]), []);
  const local = { before: step.before, after: [servicePort([], { localEndpoints: [other] })] };
  assertEquals(stale(local, [TO_A, TO_B]), [TO_B]);
});

const NODE_PORT = { clusterIPs: [], nodePort: 30053 };
const LOCAL_PAST = `${CLIENT} > ${LOCAL}:30053`;
const SAME_PORT_ELSEWHERE = [
  `${CLIENT} > 8.8.8.8:30053`,
  `${CLIENT} > 198.51.100.7:30053 > 172.17.0.2:53`,
  `${CLIENT} > 127.0.0.1:30053`,
  `${CLIENT} > ${LOCAL}:30054`,
];

Deno.test("a node port takes flows only on the addresses that the configuration names", () => {
  const named = (cidrs: string[]): DesiredNode => ({
    ...NODE,
    families: {
      ...NODE.families,
      4: { ...NODE.families[4], nodePortAddresses: { type: "cidrs", cidrs } },
    },
  });
  const ports = { before: [], after: [servicePort([A], NODE_PORT)] };
  assertEquals(stale({ ...ports, node: named(["192.0.2.0/24"]) }, [LOCAL_PAST]), [LOCAL_PAST]);
  assertEquals(stale({ ...ports, node: named(["10.0.0.0/8"]) }, [LOCAL_PAST]), []);
  assertEquals(stale({ ...ports, node: named([]) }, [LOCAL_PAST]), []);
});

Deno.test("a node port takes flows on localhost only where the configuration says so", () => {
  const localhost = `127.0.0.1:1000 > 127.0.0.1:30053`;
  const ports = { before: [], after: [servicePort([A], NODE_PORT)] };
  assertEquals(stale(ports, [localhost]), []);
  const node = { ...NODE, localhostNodePorts: true };
  assertEquals(stale({ ...ports, node }, [localhost]), [localhost]);
});

Deno.test("an untranslated flow of another zone is not stale", () => {
  const step = { before: [], after: [servicePort([B])] };
  assertEquals(stale(step, [`${PAST} zone 7`, `${TO_A} zone 7`]), [`${TO_A} zone 7`]);
});

for (const protocol of ["tcp", "sctp"] as const) {
  const port = (endpoints: readonly string[], fields: Partial<DesiredServicePort> = {}) =>
    servicePort(endpoints, { protocol, ...fields });

  Deno.test(`${protocol}: first packets that went past a new Service are stale`, () => {
    const step = { before: [], after: [port([A], { nodePort: 30053 })] };
    const flows = [TO_A, PAST, `${PAST} zone 7`, LOCAL_PAST, ...ELSEWHERE, ...SAME_PORT_ELSEWHERE];
    assertEquals(stale(step, flows), [PAST, LOCAL_PAST]);
  });

  Deno.test(`${protocol}: changed endpoints make no connection suspect, a new address does`, () => {
    const [a, b] = [port([A]), port([B])];
    assertEquals(suspects({ before: [a], after: [b] })[4].size, 0);
    assertEquals(suspects({ before: [a], after: [] })[4].size, 0);
    const after = [port([A], { externalIPs: ["203.0.113.1"] })];
    const past = `${CLIENT} > 203.0.113.1:53`;
    assertEquals(stale({ before: [a], after }, [past, TO_A]), [past]);
  });

  Deno.test(`${protocol}: a node port may be new in one family alone`, () => {
    const four = port([A], NODE_PORT);
    const six = port([], { ...NODE_PORT, family: 6 });
    const found = suspects({ before: [four], after: [four, six] });
    assertEquals([found[4].size, found[6].size], [0, 1]);
  });
}
