import { assertEquals } from "@std/assert";
import { createDecoder } from "../../../lib/source/objects/decode.ts";
import type { Service } from "../../../lib/model/cluster/objects.ts";
import {
  decodeGood,
  type Json,
  SERVICE,
  testOmissions,
  testRefusals,
  withValue,
} from "./decode_fixture.ts";
import { wordsOf } from "../../support/table.ts";

Deno.test("of a Service everything that rules need is kept, in canonical form", () => {
  const expected: Service = {
    namespace: "shop",
    name: "web",
    uid: "3f1b",
    created: Date.UTC(2026, 0, 2, 3, 4, 5),
    type: "LoadBalancer",
    hasSelector: true,
    clusterIPs: ["10.96.0.10", "fd00:10:96::a"],
    externalIPs: ["192.0.2.1"],
    loadBalancerIPs: ["203.0.113.1"],
    sourceRanges: ["198.51.100.0/24", "2001:db8::/32"],
    ports: [
      { name: "http", protocol: "tcp", port: 80, nodePort: 30080 },
      { name: "dns", protocol: "udp", port: 53, nodePort: 30053 },
      { name: "sigtran", protocol: "sctp", port: 2905, nodePort: 0 },
    ],
    internalTrafficPolicy: "Local",
    externalTrafficPolicy: "Local",
    affinitySeconds: 600,
    healthCheckNodePort: 31000,
  };
  assertEquals(createDecoder()("Service", SERVICE), {
    type: "upsert",
    kind: "Service",
    key: "shop/web",
    object: expected,
  });
});

/** The least that makes rules. */
const BARE: Json = {
  metadata: { name: "web" },
  spec: { clusterIP: "10.96.0.10", ports: [{ port: 80 }] },
};

const BARE_DECODED: Service = {
  namespace: "default",
  name: "web",
  uid: "",
  created: 0,
  type: "ClusterIP",
  hasSelector: false,
  clusterIPs: ["10.96.0.10"],
  externalIPs: [],
  loadBalancerIPs: [],
  sourceRanges: [],
  ports: [{ name: "", protocol: "tcp", port: 80, nodePort: 0 }],
  internalTrafficPolicy: "Cluster",
  externalTrafficPolicy: "Cluster",
  affinitySeconds: 0,
  healthCheckNodePort: 0,
};

Deno.test("what a Service does not say has the API's defaults", () => {
  assertEquals(decodeGood("Service", BARE), BARE_DECODED);
});

Deno.test("null or empty fields of a Service are read as absent", () => {
  const nulls: Json = {
    metadata: {
      namespace: null,
      name: "web",
      uid: null,
      creationTimestamp: null,
      labels: null,
      annotations: null,
    },
    spec: {
      type: null,
      clusterIP: "10.96.0.10",
      clusterIPs: null,
      externalIPs: null,
      loadBalancerSourceRanges: null,
      ports: [{ name: "", port: 80, protocol: "", nodePort: 0 }],
      internalTrafficPolicy: null,
      externalTrafficPolicy: "",
      healthCheckNodePort: 0,
      sessionAffinity: "",
      sessionAffinityConfig: null,
    },
    status: { loadBalancer: { ingress: null } },
  };
  assertEquals(decodeGood("Service", nulls), BARE_DECODED);
  assertEquals(decodeGood("Service", withValue(nulls, "status", null)), BARE_DECODED);
});

Deno.test("a creation time that cannot be read counts as the oldest", () => {
  for (const time of ["yesterday", 5, {}]) {
    const raw = withValue(BARE, "metadata.creationTimestamp", time);
    assertEquals(decodeGood("Service", raw).created, 0);
  }
});

const IGNORED: readonly (readonly [why: string, path: string, value: unknown])[] = [
  ["headless", "spec.clusterIP", "None"],
  ["without a cluster IP yet", "spec.clusterIP", ""],
  ["without a cluster IP field", "spec.clusterIP", undefined],
  ["ExternalName", "spec.type", "ExternalName"],
  ["of another proxy", 'metadata.labels["service.kubernetes.io/service-proxy-name"]', "other"],
  ["without a spec", "spec", undefined],
];

for (const [why, path, value] of IGNORED) {
  Deno.test(`a Service makes no rules and no warning: ${why}`, () => {
    const decoded = createDecoder()("Service", withValue(BARE, path, value));
    assertEquals(decoded, { type: "delete", kind: "Service", key: "default/web" });
  });
}

Deno.test("session affinity without a timeout has the API's default of three hours", () => {
  const raw = withValue(BARE, "spec.sessionAffinity", "ClientIP");
  assertEquals(decodeGood("Service", raw).affinitySeconds, 10_800);
});

Deno.test("a policy for external traffic counts only where there is some", () => {
  const raw = withValue(BARE, "spec.externalTrafficPolicy", "Local");
  const policy = (path: string, value: unknown) =>
    decodeGood("Service", withValue(raw, path, value)).externalTrafficPolicy;
  assertEquals(policy("spec.type", "ClusterIP"), "Cluster");
  assertEquals(policy("spec.type", "NodePort"), "Local");
  assertEquals(policy("spec.type", "LoadBalancer"), "Local");
  assertEquals(policy("spec.externalIPs", ["192.0.2.1"]), "Local");
});

Deno.test("a health-check node port counts only for a load balancer with the policy Local", () => {
  const port = (path: string, value: unknown) =>
    decodeGood("Service", withValue(SERVICE, path, value)).healthCheckNodePort;
  assertEquals(port("spec.externalTrafficPolicy", "Local"), 31000);
  assertEquals(port("spec.externalTrafficPolicy", "Cluster"), 0);
  assertEquals(port("spec.type", "NodePort"), 0);
});

const NAME_RULE = "must be a DNS name of lower-case letters, digits, '-' and '.'";
const PORT_RULE = "must be a number from 1 to 65535";
const SPECIAL_RULE =
  "must not be a loopback, link-local, unspecified, multicast or broadcast address";

testOmissions("Service", SERVICE, [
  ["spec.clusterIPs[1]", "10.96.0.256", "must be an IP address"],
  ["spec.clusterIPs[0]", null, "must be an IP address"],
  ["spec.clusterIPs[1]", "10.96.0.11", "must be the only address of its family"],
  ["spec.externalIPs[1]", "192.0.2.1; flush ruleset", "must be an IP address"],
  ["spec.loadBalancerSourceRanges[1]", "198.51.100.0/33", "must be a CIDR"],
  ["spec.loadBalancerSourceRanges[1]", "198.51.100.0", "must be a CIDR"],
  ["spec.ports[0]", 80, "must be an object"],
  ["spec.ports[0].port", 0, PORT_RULE],
  ["spec.ports[0].port", 70000, PORT_RULE],
  ["spec.ports[0].port", -1, PORT_RULE],
  ["spec.ports[0].port", 80.5, PORT_RULE],
  ["spec.ports[0].port", "80", PORT_RULE],
  ["spec.ports[0].port", undefined, PORT_RULE],
  ["spec.ports[1].nodePort", 65536, PORT_RULE],
  ["spec.ports[1].nodePort", "30053", PORT_RULE],
  ["spec.ports[2].protocol", "ICMP", "must be TCP or UDP or SCTP"],
  ["spec.ports[2].protocol", "tcp", "must be TCP or UDP or SCTP"],
  ["spec.ports[0].name", 'x" ; flush ruleset ; add comment "', NAME_RULE],
  ["spec.ports[0].name", "a\nb", NAME_RULE],
  ["spec.ports[0].name", "a:b", NAME_RULE],
  ["spec.ports[0].name", 8, NAME_RULE],
  ["spec.ports[1].name", "http", "must be unique"],
  ["spec.ports[1]", { name: "other", port: 80 }, "spec.ports[1].port must be unique, is 80"],
  [
    "spec.ports[1]",
    { name: "other", port: 81, nodePort: 30080 },
    "spec.ports[1].nodePort must be unique, is 30080",
  ],
  ["status.loadBalancer.ingress[0].ip", "lb.example.org", "must be an IP address"],
]);

const SPECIAL: readonly string[] = wordsOf(`
  0.0.0.0 0.0.0.1 127.0.0.1 169.254.169.254 224.0.0.1 239.1.2.3 255.255.255.255 ::ffff:127.0.0.1
  :: ::1 fe80::1 ff0e::1
`);

for (const address of SPECIAL) {
  Deno.test(`${address} is left out of a Service wherever it stands`, () => {
    const plain = decodeGood("Service", SERVICE);
    const paths = ["spec.externalIPs[0]", "status.loadBalancer.ingress[1]"];
    for (const path of paths) {
      const value = path.startsWith("status") ? { ip: address } : address;
      const { omitted, ...rest } = decodeGood("Service", withValue(SERVICE, path, value));
      const place = path.startsWith("status") ? `${path}.ip` : path;
      assertEquals(omitted, [`${place} ${SPECIAL_RULE}, is "${address}"`]);
      assertEquals(rest, plain);
    }
    const raw = withValue(SERVICE, "spec.clusterIPs[1]", address);
    assertEquals(decodeGood("Service", raw).clusterIPs, ["10.96.0.10"]);
    const only = { ...BARE, spec: { clusterIP: address, ports: [{ port: 80 }] } };
    assertEquals(createDecoder()("Service", only).type, "refuse");
  });
}

testRefusals("Service", SERVICE, [
  ["spec", "text", "must be an object"],
  ["spec", [], "must be an object"],
  ["spec.type", 7, "must be a string"],
  ["spec.clusterIP", 10, "must be a string"],
  ["spec.clusterIPs", "10.96.0.10", "must be a list"],
  ["spec.ports", undefined, "must hold at least one usable port"],
  ["spec.ports", [], "must hold at least one usable port"],
  ["spec.ports", null, "must hold at least one usable port"],
  ["spec.ports", { port: 80 }, "must be a list"],
  ["spec.internalTrafficPolicy", "local", "must be Cluster or Local"],
  ["spec.externalTrafficPolicy", "Nearest", "must be Cluster or Local"],
  ["spec.healthCheckNodePort", 99999, PORT_RULE],
  ["spec.sessionAffinity", "Cookie", "must be None or ClientIP"],
  ["spec.sessionAffinityConfig.clientIP.timeoutSeconds", 0, "must be a number from 1 to 86400"],
  ["spec.sessionAffinityConfig.clientIP.timeoutSeconds", 86401, "must be a number from 1 to 86400"],
  ["spec.sessionAffinityConfig", [], "must be an object"],
  ["status", 1, "must be an object"],
  ["status.loadBalancer.ingress", "x", "must be a list"],
  ["metadata.uid", {}, "must be a string"],
  ["metadata.labels", "x", "must be an object"],
]);

const BAD_NAMES: readonly unknown[] = [
  undefined,
  null,
  "",
  "Web",
  "-web",
  "web-",
  "web_1",
  "web/..",
  "we b",
  "web\n",
  "web\u2028",
  'web" }',
  "wéb",
  "a".repeat(254),
  12,
  ["web"],
  { name: "web" },
];

for (const path of ["metadata.name", "metadata.namespace"]) {
  Deno.test(`a Service whose ${path} is not a DNS name is refused`, () => {
    for (const name of BAD_NAMES) {
      if (path === "metadata.namespace" && (name === undefined || name === null)) continue;
      const decoded = createDecoder()("Service", withValue(SERVICE, path, name));
      assertEquals(decoded.type, "refuse", Deno.inspect(name));
      if (decoded.type !== "refuse") continue;
      assertEquals(decoded.reason.startsWith(`${path} ${NAME_RULE}, is `), true, decoded.reason);
      for (const text of [decoded.key, decoded.reason]) {
        assertEquals(/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text) || text.length > 300, false, text);
      }
    }
  });
}

Deno.test("names of up to 253 characters are taken", () => {
  const name = `a${"-.b".repeat(84)}`;
  assertEquals(decodeGood("Service", withValue(BARE, "metadata.name", name)).name, name);
});

Deno.test("values that are not objects are refused", () => {
  for (const raw of [undefined, null, 0, "Service", [], [SERVICE], true]) {
    assertEquals(createDecoder()("Service", raw).type, "refuse", Deno.inspect(raw));
  }
});

Deno.test("ranges that say nothing of a family let its sources in, with a warning", () => {
  const ingress = [{ ip: "192.0.2.10" }, { ip: "2001:db8::10" }];
  const omittedFor = (loadBalancerSourceRanges: readonly string[]) => {
    const spec = {
      type: "LoadBalancer",
      clusterIP: "10.96.0.10",
      clusterIPs: ["10.96.0.10", "fd00:96::10"],
      ports: [{ port: 80 }],
      loadBalancerSourceRanges,
    };
    const raw = { ...BARE, spec, status: { loadBalancer: { ingress } } };
    return decodeGood("Service", raw).omitted;
  };
  const rule = "spec.loadBalancerSourceRanges must hold a range of";
  const four = `${rule} IPv4, or every source reaches 192.0.2.10`;
  const six = `${rule} IPv6, or every source reaches 2001:db8::10`;
  assertEquals(omittedFor([]), undefined);
  assertEquals(omittedFor(["198.51.100.0/24", "2001:db8::/32"]), undefined);
  assertEquals(omittedFor(["198.51.100.0/24"]), [six]);
  assertEquals(omittedFor(["2001:db8::/32"]), [four]);
  assertEquals(omittedFor(["::ffff:198.51.100.0/120"]), [six]);
  assertEquals(omittedFor(["", " "])?.slice(2), [four, six]);
});
