/**
 * Hostile objects for the fuzz run: real ones, with strings, numbers and shapes that no one means well.
 */
import * as build from "../support/cluster.ts";
import type { Random } from "../support/random.ts";
import type { ApiObject } from "../support/pipeline.ts";
import { wordsOf } from "../support/table.ts";

/** Text that would do something in a script, a terminal, a log, a page or a name. */
export const HOSTILE_TEXT: readonly string[] = [
  "",
  " ",
  "\n",
  "a\nb",
  "a b",
  'x"; drop; "',
  "x }\ndelete table inet signpost\n",
  "x' -j ACCEPT '",
  "$(reboot)",
  "`id`",
  "-j ACCEPT",
  "\\",
  '\\"',
  "\x1b[2J\x1b[H",
  "\x07",
  "\x9b2J",
  "\u202egnp.exe",
  "\u2028",
  "\u2066x",
  "\0",
  "\ud800",
  "%s%n",
  "../../etc/passwd",
  "<script>alert(1)</script>",
  "__proto__",
  "constructor",
  "toString",
  "tcp . 22",
  "x".repeat(300),
  ...wordsOf(`
    tcp TCP None Local ClientIP LoadBalancer ExternalName
    1e3 0x7f000001 2026-01-01T00:00:00Z 9999-99-99
    0.0.0.0 :: 127.0.0.1 ::1 169.254.169.254 224.0.0.1 255.255.255.255 10.96.0.77 010.096.000.077
    ::ffff:10.96.0.77 10.96.0.77/32 0.0.0.0/0 ::/0 10.0.0.0/33 fe80::1%eth0 [fd00::1]:80
  `),
];

/** Numbers at and over the edges of what ports, times and counts may be. */
const HOSTILE_NUMBERS: readonly number[] = [
  -1,
  0,
  -0,
  0.5,
  1,
  22,
  80,
  443,
  6443,
  30080,
  30077,
  65535,
  65536,
  86400,
  86401,
  2 ** 31,
  2 ** 32,
  2 ** 53,
  1e308,
  NaN,
  Infinity,
];

export function pick<T>(random: Random, list: readonly T[]): T {
  return list[random(list.length)] as T;
}

const ADDRESSES = wordsOf(`
  10.96.0.78 10.96.0.79 10.96.0.77 192.0.2.1 192.0.2.2 192.0.2.10 203.0.113.9 fd00:10:96::78
  2001:db8::1 127.0.0.1 169.254.169.254
`);
const PODS = ["10.244.0.1", "10.244.1.1", "10.244.1.2", "fd00:10:244::1", "127.0.0.1"];
const some = <T>(random: Random, list: readonly T[], most: number): T[] =>
  Array.from({ length: random(most + 1) }, () => pick(random, list));

function service(random: Random): ApiObject {
  const ports = Array.from({ length: 1 + random(3) }, (_, i) => ({
    name: pick(random, [`p${i}`, "http", ""]),
    protocol: pick(random, ["TCP", "UDP", "SCTP"]),
    port: pick(random, [80, 443, 53, 6443, 30077]),
    nodePort: pick(random, [0, 30080, 30077, 10256]),
  }));
  return build.service({
    namespace: "evil",
    name: `s${random(4)}`,
    metadata: {
      creationTimestamp: "2026-01-01T00:00:00Z",
      resourceVersion: "5",
      labels: {},
      annotations: {},
    },
    type: pick(random, ["ClusterIP", "NodePort", "LoadBalancer"]),
    clusterIP: pick(random, ADDRESSES),
    clusterIPs: some(random, ADDRESSES, 2),
    externalIPs: some(random, ADDRESSES, 3),
    loadBalancerSourceRanges: some(
      random,
      ["198.51.100.0/24", "0.0.0.0/0", "::/0", "10.0.0.0/8"],
      3,
    ),
    sessionAffinity: pick(random, ["None", "ClientIP"]),
    sessionAffinityConfig: { clientIP: { timeoutSeconds: pick(random, [1, 10800, 86400]) } },
    internalTrafficPolicy: pick(random, ["Cluster", "Local"]),
    externalTrafficPolicy: pick(random, ["Cluster", "Local"]),
    trafficDistribution: pick(random, ["PreferClose", "PreferSameNode", ""]),
    healthCheckNodePort: pick(random, [0, 32000, 30080]),
    ports,
    ingress: some(random, ADDRESSES, 2),
  });
}

function slice(random: Random): ApiObject {
  return build.slice({
    namespace: "evil",
    service: pick(random, ["s0", "s1", "s2", "bank"]),
    name: `slice${random(4)}`,
    metadata: { resourceVersion: "5" },
    addressType: pick(random, ["IPv4", "IPv4", "IPv6", "FQDN"]),
    endpoints: Array.from({ length: random(4) }, () => ({
      addresses: some(random, PODS, 2),
      nodeName: pick(random, ["node-1", "node-2"]),
      zone: pick(random, ["a", "Zone_A"]),
      conditions: {
        ready: random(2) === 0,
        serving: random(2) === 0,
        terminating: random(2) === 0,
      },
      hints: {
        forZones: [{ name: pick(random, ["a", "Zone_A", ""]) }],
        forNodes: [{ name: "node-1" }],
      },
    })),
    ports: [{
      name: pick(random, ["p0", "http", ""]),
      protocol: "TCP",
      port: pick(random, [8080, 0, 53]),
    }],
  });
}

function node(): ApiObject {
  return build.node({
    addresses: ["192.0.2.10"],
    resourceVersion: "5",
    labels: { "topology.kubernetes.io/zone": "a" },
    spec: { podCIDRs: ["10.244.0.0/24", "fd00:10:244::/64"] },
  });
}

function serviceCIDR(random: Random): ApiObject {
  const cidrs = some(random, ["10.96.0.0/12", "10.96.0.0/16", "fd00:10:96::/112"], 2);
  return build.serviceCIDR({ name: `cidr${random(2)}`, cidrs });
}

/** An object of one of the kinds, as the API server could send it. */
export function anyObject(random: Random): ApiObject {
  const kind = random(10);
  if (kind < 5) return service(random);
  return kind < 8 ? slice(random) : kind < 9 ? node() : serviceCIDR(random);
}

function anyValue(random: Random): unknown {
  switch (random(8)) {
    case 0:
      return null;
    case 1:
      return pick(random, [true, false]);
    case 2:
    case 3:
      return pick(random, HOSTILE_NUMBERS);
    case 4:
      return pick<unknown>(random, [[], {}, [[]], { length: 3 }, [null], Object.create(null)]);
    default:
      return pick(random, HOSTILE_TEXT);
  }
}

/** Fields that the API server itself writes: no one who creates an object chooses them. */
const NOT_CHOSEN: ReadonlySet<string> = new Set(["namespace", "creationTimestamp", "kind"]);

type Container = Record<string, unknown>;

/** Every place in a value that can be changed. */
function places(value: unknown): { readonly of: Container; readonly key: string }[] {
  if (typeof value !== "object" || value === null) return [];
  const of = value as Container;
  return Object.keys(of).filter((key) => !NOT_CHOSEN.has(key)).flatMap((key) => [
    { of, key },
    ...places(of[key]),
  ]);
}

/** Changes up to three places of an object, which is its own. */
export function mutate(random: Random, object: ApiObject): ApiObject {
  for (let left = random(4); left > 0; left--) {
    const all = places(object);
    if (all.length === 0) break;
    const { of, key } = pick(random, all);
    switch (random(6)) {
      case 0:
        delete of[key];
        break;
      case 1:
        of[pick(random, HOSTILE_TEXT)] = anyValue(random);
        break;
      case 2: {
        const list = of[key];
        if (Array.isArray(list)) list.push(...Array.from({ length: 30 }, () => anyValue(random)));
        else of[key] = anyValue(random);
        break;
      }
      default:
        of[key] = anyValue(random);
    }
  }
  return object;
}
