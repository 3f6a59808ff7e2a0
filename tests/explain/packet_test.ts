import { assertEquals } from "@std/assert";
import { casesOf } from "../support/table.ts";
import { DEFAULTS } from "../support/configuration.ts";
import type { ApiObject } from "../support/pipeline.ts";
import {
  explainFrom,
  loadBalancer,
  LOCAL,
  NODE_ADDRESS,
  type Options,
  outcomeOf,
  POD,
  REMOTE,
  slice,
  web,
} from "./cluster.ts";

const WEB = [web(), slice([LOCAL, REMOTE])];
const NO_ENDPOINTS = [loadBalancer(), slice([])];
const RANGES = [loadBalancer({ loadBalancerSourceRanges: ["203.0.113.0/24"] }), slice([LOCAL])];
const LOCAL_POLICY = [loadBalancer({ externalTrafficPolicy: "Local" }), slice([LOCAL, REMOTE])];
const LOCAL_ELSEWHERE = [loadBalancer({ externalTrafficPolicy: "Local" }), slice([REMOTE])];
const INTERNAL_LOCAL = [web({ internalTrafficPolicy: "Local" }), slice([REMOTE])];

const OBJECTS: Readonly<Record<string, readonly ApiObject[]>> = {
  WEB,
  NO_ENDPOINTS,
  RANGES,
  LOCAL_POLICY,
  LOCAL_ELSEWHERE,
  INTERNAL_LOCAL,
};

/** Packets, objects, what becomes of them (verdict, code, endpoints, masqueraded and why), and options. */
const PACKETS = casesOf(`
pod ${POD} > 10.96.0.10:80/tcp => WEB => dnat 2, none
pod > 10.96.0.10:80/tcp => WEB => dnat 2, none
pod 10.99.0.1 > 10.96.0.10:80/tcp => WEB => dnat 2, masqueraded: not-a-local-pod
pod > 10.96.0.10:80/tcp => WEB => dnat 2, masqueraded: masquerade-all => {"configuration":{"nftables":{"masqueradeAll":true,"masqueradeBit":14,"syncPeriod":30000,"minSyncPeriod":"adaptive"}}}
node > 10.96.0.10:80/tcp => WEB => dnat 2, masqueraded: not-a-local-pod
external > 10.96.0.10:80/tcp => WEB => dnat 2, masqueraded: not-a-local-pod
external > 10.96.0.10:80/tcp => WEB => dnat 2, none => {"configuration":{"clusterCIDRs":[]}}
pod 10.244.0.11 > 10.96.0.10:80/tcp => WEB => dnat 2, hairpin
pod > 10.96.0.10:81/tcp => WEB => reject undefined-port
pod > 10.96.0.10:80/udp => WEB => reject undefined-port
pod > 10.96.0.10:81/tcp => WEB => none not-a-service => {"mode":"iptables"}
pod > 10.96.0.99:80/tcp => WEB => drop unallocated-address
pod > 10.96.0.99:80/tcp => WEB => none not-a-service => {"mode":"iptables"}
pod > 192.0.2.99:80/tcp => WEB => none not-a-service
pod > 127.0.0.1:8443/tcp => WEB => drop localhost-guarded
external > 127.0.0.1:8443/tcp => WEB => drop localhost-guarded => {"mode":"iptables"}
node > 127.0.0.1:8443/tcp => WEB => none not-a-service
external > ${NODE_ADDRESS}:30080/tcp => WEB => none not-a-service
pod > 10.96.0.10:80/tcp => NO_ENDPOINTS => reject no-endpoints
external > 192.0.2.10:80/tcp => NO_ENDPOINTS => reject no-endpoints
external > ${NODE_ADDRESS}:30080/tcp => NO_ENDPOINTS => reject no-endpoints
external > 192.0.2.10:80/tcp => NO_ENDPOINTS => reject no-endpoints => {"mode":"iptables"}
pod > 10.96.0.10:80/tcp => INTERNAL_LOCAL => drop no-local-endpoints
external 203.0.113.9 > 192.0.2.10:80/tcp => RANGES => dnat 1, masqueraded: external-cluster-policy
external 198.51.100.9 > 192.0.2.10:80/tcp => RANGES => drop source-range
external > 192.0.2.10:80/tcp => RANGES => dnat 1, masqueraded: external-cluster-policy, if
external 198.51.100.9 > ${NODE_ADDRESS}:30080/tcp => RANGES => dnat 1, masqueraded: external-cluster-policy
external > 192.0.2.10:80/tcp => LOCAL_POLICY => dnat 1, none
pod > 192.0.2.10:80/tcp => LOCAL_POLICY => dnat 2, none
node > 192.0.2.10:80/tcp => LOCAL_POLICY => dnat 2, masqueraded: node-to-external
external > ${NODE_ADDRESS}:30080/tcp => LOCAL_POLICY => dnat 1, none
external > 127.0.0.1:30080/tcp => LOCAL_POLICY => drop localhost-guarded
node > 127.0.0.1:30080/tcp => LOCAL_POLICY => dnat 2, masqueraded: node-to-external => {"mode":"iptables"}
node > 127.0.0.2:30080/tcp => LOCAL_POLICY => none not-a-service => {"mode":"iptables","configuration":{"nodePortAddresses":["127.0.0.1/32"]}}
external > 192.0.2.10:80/tcp => LOCAL_ELSEWHERE => drop no-local-endpoints
pod > 192.0.2.10:80/tcp => LOCAL_ELSEWHERE => dnat 1, none
pod > 192.0.2.10:80/tcp => LOCAL_ELSEWHERE => drop no-local-endpoints => {"configuration":{"clusterCIDRs":[]}}
node > 127.0.0.1:30080/tcp => LOCAL_POLICY => none not-a-service
node > 127.0.0.1:30080/tcp => LOCAL_POLICY => none localhost-listener => {"configuration":{"nodePortAddresses":["localhost"]}}
node > 127.0.0.2:30080/tcp => LOCAL_POLICY => none no-localhost-listener => {"configuration":{"nodePortAddresses":["localhost"]}}
node > 127.0.0.1:30080/tcp => LOCAL_ELSEWHERE => none no-localhost-listener => {"configuration":{"nodePortAddresses":["localhost"]}}
pod > 127.0.0.1:30080/tcp => LOCAL_POLICY => drop localhost-guarded => {"configuration":{"nodePortAddresses":["localhost"]}}
node > 127.0.0.1:30080/tcp => LOCAL_POLICY => reject not-on-localhost => {"configuration":{"featureGates":{"KubeProxyNFTablesLocalhostNodePorts":true}}}
`);

for (const [packet, name, expected, given] of PACKETS) {
  const options: Options = given === "" ? {} : JSON.parse(given);
  const objects = OBJECTS[name] ?? [];
  const how = given === "" ? "" : ` (${given.slice(0, 60)})`;
  Deno.test(`${packet}${how}: ${expected}`, () => {
    const { verdict, code, endpoints, masquerade, conditions, rule } = outcomeOf(
      packet,
      objects,
      options,
    );
    const source = masquerade?.applies ? `masqueraded: ${masquerade.code}` : masquerade?.code;
    assertEquals(
      verdict === "dnat"
        ? `dnat ${endpoints.length}, ${source}${conditions.length > 0 ? ", if" : ""}`
        : `${verdict} ${code}`,
      expected,
    );
    assertEquals(verdict === "none" ? rule === null : (rule ?? "") !== "", true, `rule: ${rule}`);
  });
}

Deno.test("the rule that decides is named as the kernel has it", () => {
  const cases: readonly (readonly [string, readonly ApiObject[], Options, string])[] = [
    [
      "pod > 10.96.0.10:80/tcp",
      WEB,
      {},
      "map services4 { 10.96.0.10 . tcp . 80 : goto cluster4-tcp-2 }",
    ],
    [
      "pod > 192.0.2.10:80/tcp",
      LOCAL_POLICY,
      {},
      "map short-circuits4 { 192.0.2.10 . tcp . 80 : goto pick-endpoints4-tcp-2 }",
    ],
    [
      "external > 192.0.2.10:80/tcp",
      LOCAL_ELSEWHERE,
      {},
      "map no-endpoints4 { 192.0.2.10 . tcp . 80 : drop }",
    ],
    [
      "external 198.51.100.9 > 192.0.2.10:80/tcp",
      RANGES,
      {},
      "chain source-ranges4-tcp: source not in @source-ranges-tcp4: drop",
    ],
    [
      "external > 192.0.2.10:80/tcp",
      NO_ENDPOINTS,
      { mode: "iptables" },
      "filter KUBE-EXTERNAL-SERVICES: -d 192.0.2.10/32 -p tcp -m comment --comment " +
      '"shop/web:http has no endpoints" -m tcp --dport 80 -j REJECT ' +
      "--reject-with icmp-port-unreachable",
    ],
  ];
  for (const [packet, objects, options, rule] of cases) {
    assertEquals(outcomeOf(packet, objects, options).rule, rule);
  }
});

Deno.test("a hairpin endpoint alone is masqueraded where its own connections come back", () => {
  const { endpoints } = outcomeOf("pod 10.244.0.11 > 10.96.0.10:80/tcp", WEB);
  assertEquals(
    endpoints.map(({ address, probability, masqueraded }) => [address, probability, masqueraded]),
    [["10.244.0.11", 0.5, true], ["10.244.1.11", 0.5, false]],
  );
});

Deno.test("the sender follows from its address", () => {
  const cases: readonly (readonly [string, string])[] = [
    [NODE_ADDRESS, `node: ${NODE_ADDRESS} is an address of this node`],
    ["127.0.0.1", "node: 127.0.0.1 is an address of this node"],
    [POD, `pod: ${POD} is in this node's pod CIDR 10.244.0.0/24`],
    ["10.244.7.7", "pod: 10.244.7.7 is in the cluster CIDR 10.244.0.0/16"],
    ["203.0.113.9", "external: 203.0.113.9 is not an address of this node or of its pods"],
  ];
  for (const [source, expected] of cases) {
    const { packet } = explainFrom({ source }, WEB);
    assertEquals(`${packet.sender}: ${packet.senderReason}`, expected);
  }
  const { packet } = explainFrom({ source: "10.244.0.11" }, WEB, {
    bare: true,
    configuration: { clusterCIDRs: [] },
  });
  assertEquals(packet.senderReason, "10.244.0.11 is an endpoint on this node (slice web-1)");
});

Deno.test("what --from says wins over the address", () => {
  const report = explainFrom({ source: "203.0.113.9", from: "pod" }, WEB);
  assertEquals([report.packet.sender, report.packet.senderReason], ["pod", "named by --from"]);
  assertEquals(report.findings.map(({ code }) => code), ["pod-not-recognised", "kernel-unread"]);
});

Deno.test("a packet that is refused is an error, one that is left alone is not", () => {
  const errors = (objects: readonly ApiObject[]) =>
    explainFrom({ from: "pod" }, objects).findings.filter(({ severity }) => severity === "error")
      .map(({ code }) => code);
  assertEquals(errors(INTERNAL_LOCAL), ["no-local-endpoints"]);
  assertEquals(errors(WEB), []);
  assertEquals(errors([]), ["unallocated-address"]);
});

Deno.test("a node port at an address that takes none names its Service", () => {
  const { reason } = outcomeOf("node > 127.0.0.1:30080/tcp", LOCAL_POLICY);
  assertEquals(
    reason,
    `30080/tcp is the node port of shop/web:http, which answers on ${NODE_ADDRESS}; signpost leaves ` +
      "packets to 127.0.0.1 alone",
  );
});

Deno.test("a node port at the address of another machine is not named", () => {
  const { reason } = outcomeOf("node > 192.168.0.9:30080/tcp", LOCAL_POLICY);
  assertEquals(reason.startsWith("no Service has 192.168.0.9 with port 30080/tcp"), true);
});

Deno.test("a connection that this node forwards may take the fast path", () => {
  const acceleration = { interfaces: ["eth0"], packets: 20, services: "all" } as const;
  const options = { configuration: { signpost: { ...DEFAULTS.signpost, acceleration } } };
  const after = (sender: string, ...rest: readonly Options[]) =>
    outcomeOf(`${sender} > 10.96.0.10:80/tcp`, WEB, ...rest).acceleratedAfter;
  assertEquals(after("pod", options), 20);
  assertEquals(after("node", options), undefined);
  assertEquals(after("pod"), undefined);
});
