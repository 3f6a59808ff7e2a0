import { assertEquals } from "@std/assert";
import { casesOf } from "../support/table.ts";
import type { ApiObject } from "../support/pipeline.ts";
import {
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

Deno.test("a hairpin endpoint alone is masqueraded where its own connections come back", () => {
  const { endpoints } = outcomeOf("pod 10.244.0.11 > 10.96.0.10:80/tcp", WEB);
  assertEquals(
    endpoints.map(({ address, probability, masqueraded }) => [address, probability, masqueraded]),
    [["10.244.0.11", 0.5, true], ["10.244.1.11", 0.5, false]],
  );
});
