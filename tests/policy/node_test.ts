import { assertEquals } from "@std/assert";
import { apiServerPort } from "../../lib/policy/claims.ts";
import { desiredNode, nodeAddress, takesNodePorts } from "../../lib/policy/node.ts";
import type { Configuration } from "../../lib/config/configuration.ts";
import type { DesiredNode } from "../../lib/model/kernel/desired.ts";
import type { Node } from "../../lib/model/cluster/objects.ts";
import { configuration, DEFAULTS } from "../support/configuration.ts";
import { modelNode } from "../support/cluster.ts";
import { type Mode, traitsOf } from "../support/modes.ts";
import { wordsOf } from "../support/table.ts";

const NODE = modelNode({
  addresses: ["192.0.2.10", "192.0.2.11", "2001:db8::10"],
  podCIDRs: ["10.244.1.0/24", "fd00:10:244:1::/64"],
});

interface Inputs {
  readonly mode?: Mode;
  readonly node?: Node | undefined;
  readonly cidrs?: readonly (readonly string[])[];
}

function work(changes: Partial<Configuration> = {}, inputs: Inputs = {}): DesiredNode {
  const { mode = "nftables", cidrs = [] } = inputs;
  return desiredNode({
    configuration: configuration(changes),
    traits: traitsOf(mode),
    node: "node" in inputs ? inputs.node : NODE,
    serviceCIDRs: cidrs.map((each, i) => ({ name: `cidr-${i}`, cidrs: each })),
  });
}

/** Returns a setting's effect in each family. */
function eachFamily<T>(node: DesiredNode, read: (family: DesiredNode["families"][4]) => T): T[] {
  return [read(node.families[4]), read(node.families[6])];
}

const detectors = (changes: Partial<Configuration>, inputs: Inputs = {}) =>
  eachFamily(work(changes, inputs), ({ localDetector }) => localDetector);

const nodePorts = (nodePortAddresses: readonly string[], inputs: Inputs = {}) =>
  eachFamily(work({ nodePortAddresses }, inputs), ({ nodePortAddresses }) => nodePortAddresses);

Deno.test("ClusterCIDR: each family's cluster CIDR is local", () => {
  assertEquals(detectors({ clusterCIDRs: ["fd00:10:244::/48", "10.244.0.0/16"] }), [
    { type: "cidr", cidr: "10.244.0.0/16" },
    { type: "cidr", cidr: "fd00:10:244::/48" },
  ]);
});

Deno.test("ClusterCIDR without a CIDR of a family: nothing of it is local", () => {
  assertEquals(detectors({ clusterCIDRs: ["10.244.0.0/16"] }), [
    { type: "cidr", cidr: "10.244.0.0/16" },
    undefined,
  ]);
  assertEquals(detectors({}), [undefined, undefined]);
});

Deno.test("NodeCIDR: the first pod CIDR of each family is local", () => {
  const node = { ...NODE, podCIDRs: [...NODE.podCIDRs, "10.245.0.0/24"] };
  const changes = { detectLocalMode: "NodeCIDR", clusterCIDRs: ["10.0.0.0/8"] } as const;
  assertEquals(detectors(changes, { node }), [
    { type: "cidr", cidr: "10.244.1.0/24" },
    { type: "cidr", cidr: "fd00:10:244:1::/64" },
  ]);
  assertEquals(detectors(changes, { node: undefined }), [undefined, undefined]);
});

Deno.test("BridgeInterface and InterfaceNamePrefix take packets there for local", () => {
  const detectLocal = { bridgeInterface: "cni0", interfaceNamePrefix: "cali" };
  const bridge = { type: "interface", name: "cni0" } as const;
  assertEquals(detectors({ detectLocalMode: "BridgeInterface", detectLocal }), [bridge, bridge]);
  const prefix = { type: "interfacePrefix", prefix: "cali" } as const;
  assertEquals(
    detectors({ detectLocalMode: "InterfaceNamePrefix", detectLocal }),
    [prefix, prefix],
  );
});

const ALL = { type: "all" } as const;
const only = (...cidrs: readonly string[]) => ({ type: "cidrs", cidrs }) as const;
const PRIMARY = [only("192.0.2.10/32"), only("2001:db8::10/128")];
const LOOPBACK = [only("127.0.0.0/8"), only("::1/128")];

type NodePorts = DesiredNode["families"][4]["nodePortAddresses"];

/** Settings of the node, by the words of nodePortAddresses, with the addresses of node ports in each family. */
const NODE_PORTS: readonly (readonly [string, string, readonly NodePorts[], Inputs?])[] = [
  ["none, nftables mode: the primary addresses", "", PRIMARY],
  ["none, iptables mode: all addresses", "", [ALL, ALL], { mode: "iptables" }],
  ["none, without a Node: all addresses", "", [ALL, ALL], { node: undefined }],
  ["primary: the node's first address of each family", "primary", PRIMARY],
  ["primary, iptables mode: the same", "primary", PRIMARY, { mode: "iptables" }],
  [
    "primary: a family in which the node has no address has none",
    "primary",
    [only("192.0.2.10/32"), only()],
    { node: { ...NODE, addresses: ["192.0.2.10"] } },
  ],
  ["localhost: the loopback ranges of both families", "localhost", LOOPBACK],
  ["localhost, without a Node: the same", "localhost", LOOPBACK, { node: undefined }],
  ["all: every address of both families", "all", [ALL, ALL]],
  ["all among words: every address", "localhost all primary", [ALL, ALL]],
  ["all beside a CIDR: every address", "all 10.0.0.0/8", [ALL, ALL]],
  [
    "two words: the ranges of both",
    "primary localhost",
    [only("127.0.0.0/8", "192.0.2.10/32"), only("::1/128", "2001:db8::10/128")],
  ],
  [
    "a word and a CIDR: the ranges of both",
    "198.51.100.0/24 primary",
    [only("192.0.2.10/32", "198.51.100.0/24"), only("2001:db8::10/128")],
  ],
  ["two words, without a Node: what is left", "primary localhost", LOOPBACK, { node: undefined }],
  [
    "a word and a CIDR, without a Node: what is left",
    "primary 198.51.100.0/24",
    [only("198.51.100.0/24"), ALL],
    { node: undefined },
  ],
  [
    "CIDRs are merged",
    "192.0.2.128/25 192.0.2.0/25 10.0.0.0/8 10.1.0.0/16",
    [only("10.0.0.0/8", "192.0.2.0/24"), ALL],
  ],
  ["a CIDR of one family: all addresses of the other", "fd00::/64", [ALL, only("fd00::/64")]],
  ["0.0.0.0/0: all IPv4 addresses", "0.0.0.0/0 fd00::/64", [ALL, only("fd00::/64")]],
  ["::/0: all IPv6 addresses", "10.0.0.0/8 ::/0", [only("10.0.0.0/8"), ALL]],
];

for (const [name, setting, expected, inputs] of NODE_PORTS) {
  Deno.test(`node ports on ${name}`, () => {
    assertEquals(nodePorts(wordsOf(setting), inputs), [...expected]);
  });
}

/** kube-proxy takes 127.0.0.1 and ::1 then, where no node port can be, and so all addresses. */
Deno.test("Test_detectNodeIPs: No Valid IP found and unspecified bind address used", () => {
  for (const mode of ["nftables", "iptables"] as const) {
    for (const node of [undefined, { ...NODE, addresses: [] }]) {
      assertEquals(nodePorts(["primary"], { mode, node }), [ALL, ALL]);
    }
  }
});

Deno.test("Test_detectNodeIPs: the bind address counts where the Node has none", () => {
  const changes = { nodePortAddresses: ["primary"], bindAddress: "10.0.0.1" };
  assertEquals(
    eachFamily(work(changes, { node: undefined }), (family) => family.nodePortAddresses),
    [only("10.0.0.1/32"), ALL],
  );
});

Deno.test("ServiceCIDRs of all objects are merged by family, in one order", () => {
  const cidrs = [["10.112.0.0/12", "fd00:10:96::/112"], ["10.96.0.0/12"], ["10.96.5.0/24"], []];
  for (const order of [cidrs, cidrs.toReversed()]) {
    const found = eachFamily(work({}, { cidrs: order }), ({ serviceCIDRs }) => serviceCIDRs);
    assertEquals(found, [["10.96.0.0/11"], ["fd00:10:96::/112"]]);
  }
});

Deno.test("a known range of pods inside a ServiceCIDR is not guarded", () => {
  const node = { ...NODE, podCIDRs: ["10.96.4.0/24", "fd00:10:244::/64"] };
  const cidrs = [["10.96.0.0/16", "fd00:10:96::/112"]];
  const guarded = (clusterCIDRs: readonly string[]) =>
    eachFamily(work({ clusterCIDRs }, { node, cidrs }), ({ guardedCIDRs }) => guardedCIDRs);
  assertEquals(guarded(["10.0.0.0/8", "10.96.128.0/17"]), [
    ["10.96.0.0/22", "10.96.5.0/24", "10.96.6.0/23", "10.96.8.0/21", "10.96.16.0/20"]
      .concat("10.96.32.0/19", "10.96.64.0/18"),
    ["fd00:10:96::/112"],
  ]);
  assertEquals(guarded(["10.96.0.0/16"])[0], []);
});

Deno.test("the API server's addresses in a ServiceCIDR are not guarded", () => {
  const guarded = (servers: readonly string[]) =>
    desiredNode({
      configuration: configuration(),
      traits: traitsOf("nftables"),
      node: NODE,
      serviceCIDRs: [{ name: "kubernetes", cidrs: ["10.96.0.0/16"] }],
      ownPorts: () => servers.map((address) => apiServerPort(address, 6443)),
    }).families[4];
  const known = guarded(["10.96.0.7", "192.0.2.6"]);
  assertEquals(known.guardedCIDRs, ["10.96.0.0/16"]);
  assertEquals(known.guardedServers, ["10.96.0.7"]);
  assertEquals(guarded([]).guardedCIDRs, []);
});

Deno.test("the masquerade mark is the configured bit, the highest included", () => {
  const mark = (masqueradeBit: number) =>
    work({ nftables: { ...DEFAULTS.nftables, masqueradeBit } }).masqueradeMark;
  assertEquals([0, 14, 30, 31].map(mark), [1, 0x4000, 0x40000000, 0x80000000]);
});

Deno.test("each mode has its own masquerade settings", () => {
  const changes = {
    nftables: { ...DEFAULTS.nftables, masqueradeAll: true },
    iptables: { ...DEFAULTS.iptables, masqueradeBit: 3, localhostNodePorts: false },
  };
  const nftables = work(changes);
  assertEquals([nftables.masqueradeAll, nftables.masqueradeMark], [true, 0x4000]);
  const iptables = work(changes, { mode: "iptables" });
  assertEquals([iptables.masqueradeAll, iptables.masqueradeMark], [false, 8]);
  assertEquals(iptables.localhostNodePorts, false);
});

Deno.test("node ports answer on 127.0.0.0/8 in iptables mode alone", () => {
  const localhost = (localhostNodePorts: boolean, nodePortAddresses: readonly string[] = []) => ({
    iptables: { ...DEFAULTS.iptables, localhostNodePorts },
    nodePortAddresses,
  });
  const cases: readonly (readonly [Mode, Partial<Configuration>, own: readonly string[]])[] = [
    ["nftables", localhost(true), ["192.0.2.10", "2001:db8::10"]],
    ["nftables", localhost(true, ["127.0.0.0/8"]), ["2001:db8::10"]],
    ["iptables", localhost(false), ["192.0.2.10", "192.0.2.11", "2001:db8::10"]],
    ["iptables", localhost(true), [
      "127.0.0.1",
      "127.0.0.2",
      "192.0.2.10",
      "192.0.2.11",
      "2001:db8::10",
    ]],
    ["iptables", localhost(true, ["127.0.0.1/32", "::1/128"]), ["127.0.0.1"]],
    ["iptables", localhost(true, ["192.0.2.0/24", "2001:db8::/64"]), [
      "192.0.2.10",
      "192.0.2.11",
      "2001:db8::10",
    ]],
  ];
  const own = new Set(["127.0.0.1", "192.0.2.10", "192.0.2.11", "::1", "2001:db8::10"]);
  for (const [mode, changes, expected] of cases) {
    const node = work(changes, { mode });
    const found = [...own, "127.0.0.2", "192.0.2.99"].filter((address) =>
      takesNodePorts(address, { node, isOwn: own.has(address) })
    );
    assertEquals(found.sort(), [...expected].sort(), `${mode} ${changes.nodePortAddresses}`);
  }
});

Deno.test("the node's own address is the bind address of its family, else the Node's first", () => {
  const cases: readonly (readonly [bindAddress: string, own: readonly unknown[]])[] = [
    ["0.0.0.0", ["192.0.2.10", "2001:db8::10"]],
    ["::", ["192.0.2.10", "2001:db8::10"]],
    ["127.0.0.1", ["192.0.2.10", "2001:db8::10"]],
    ["198.51.100.1", ["198.51.100.1", "2001:db8::10"]],
    ["2001:db8::99", ["192.0.2.10", "2001:db8::99"]],
  ];
  for (const [bindAddress, own] of cases) {
    const inputs = { configuration: configuration({ bindAddress }), node: NODE };
    assertEquals([nodeAddress(inputs, 4), nodeAddress(inputs, 6)], own, bindAddress);
  }
  const unknown = { configuration: configuration(), node: undefined };
  assertEquals(nodeAddress(unknown, 4), undefined);
});
