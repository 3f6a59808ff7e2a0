import { assertEquals } from "@std/assert";
import { casesOf } from "../../support/table.ts";
import { errorsOf, FILE, load, loadFile } from "../support.ts";

/** A wrong line of a file, and what is said of it after the file's name. */
const WRONG = casesOf(`
nftables: {masqueradeBit: 40} => nftables.masqueradeBit: must be 0 to 31, is 40
iptables: {masqueradeBit: -1} => iptables.masqueradeBit: must be 0 to 31, is -1
mode: ipvs\\niptables: {masqueradeBit: 99} => iptables.masqueradeBit: must be 0 to 31, is 99
iptables: {masqueradeBit: 1.5} => iptables.masqueradeBit: must be 0 to 31, is 1.5
iptables: {masqueradeBit: '14'} => iptables.masqueradeBit: must be 0 to 31, is "14"
iptables: {masqueradeAll: 1} => iptables.masqueradeAll: must be true or false, is 1
iptables: [1] => iptables: must be a mapping of fields, is [1]
iptables: yes please => iptables: must be a mapping of fields, is "yes please"
conntrack: {min: -1} => conntrack.min: must be a whole number, 0 or more, is -1
conntrack: {min: 4294967296} => conntrack.min: must be a whole number, 0 or more, is 4294967296
conntrack: {udpTimeout: -1s} => conntrack.udpTimeout: must not be negative, is "-1s"
conntrack: {tcpCloseWaitTimeout: 60} => conntrack.tcpCloseWaitTimeout: must be a duration such as 30s, 500ms or 1h30m, is 60
nftables: {syncPeriod: 1d} => nftables.syncPeriod: must be a duration such as 30s, 500ms or 1h30m, is "1d"
mode: userspace => mode: must be nftables, iptables or ipvs, is "userspace"
mode: [a] => mode: must be nftables, iptables or ipvs, is ["a"]
mode: {toString: 1} => mode: must be nftables, iptables or ipvs, is {"toString":1}
detectLocalMode: NodeCidr => detectLocalMode: must be ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix (did you mean NodeCIDR?), is "NodeCidr"
clusterCIDR: 10.0.0.0/33 => clusterCIDR: must be a CIDR such as 10.244.0.0/16, or one IPv4 and one IPv6 CIDR with a comma, is "10.0.0.0/33"
clusterCIDR: 10.0.0.0/8,11.0.0.0/8 => clusterCIDR: must have at most one IPv4 CIDR, is "10.0.0.0/8,11.0.0.0/8"
clusterCIDR: fd00::/8,10.0.0.0/8,fd01::/16 => clusterCIDR: must have at most one IPv6 CIDR, is "fd00::/8,10.0.0.0/8,fd01::/16"
nodePortAddresses: [10.0.0.0/8, 10.0.0.1] => nodePortAddresses[1]: must be a CIDR (did you mean 10.0.0.1/32?), is "10.0.0.1"
nodePortAddresses: [Localhost] => nodePortAddresses[0]: must be a CIDR, primary, localhost or all (did you mean localhost?), is "Localhost"
nodePortAddresses: 10.0.0.0/8 => nodePortAddresses: must be a list, is "10.0.0.0/8"
nodePortAddresses: [localhost, localhost] => nodePortAddresses[1]: Duplicate value: "localhost"
bindAddress: localhost => bindAddress: must be an IP address, is "localhost"
bindAddress: fe80::1%eth0 => bindAddress: must be an IP address, is "fe80::1%eth0"
healthzBindAddress: localhost:10256 => healthzBindAddress: must be an IP address and a port, such as 0.0.0.0:10256 or [::]:10256, is "localhost:10256"
metricsBindAddress: 0.0.0.0:0 => metricsBindAddress: must have a port from 1 to 65535, is "0.0.0.0:0"
metricsBindAddress: 0.0.0.0:70000 => metricsBindAddress: must have a port from 1 to 65535, is "0.0.0.0:70000"
hostnameOverride: 12 => hostnameOverride: must be text, is 12
hostnameOverride: "a,b=c" => hostnameOverride: must be a node name: letters, digits, '-' and '.', at most 253, is "a,b=c"
detectLocal: {interfaceNamePrefix: cali+} => detectLocal.interfaceNamePrefix: must be an interface name, at most 15 letters, digits or _ . : @ = -, is "cali+"
detectLocalMode: BridgeInterface => detectLocalMode: BridgeInterface needs --pod-bridge-interface or detectLocal.bridgeInterface
detectLocalMode: InterfaceNamePrefix => detectLocalMode: InterfaceNamePrefix needs --pod-interface-name-prefix or detectLocal.interfaceNamePrefix
oomScoreAdj: 1001 => oomScoreAdj: must be -1000 to 1000, is 1001
featureGates: {A: maybe} => featureGates.A: must be true or false, is "maybe"
featureGates: A=true => featureGates: must be a mapping of names to true or false, is "A=true"
logging: {format: xml} => logging.format: must be text or json, is "xml"
logging: {verbosity: -1} => logging.verbosity: must be a whole number, 0 or more, is -1
ipvs: {strictARP: please} => ipvs.strictARP: must be true or false, is "please"
winkernel: {enableDSR: 3} => winkernel.enableDSR: must be true or false, is 3
clientConnection: {qps: .inf} => clientConnection.qps: must be a number, is Infinity
nftables: {syncPeriod: 1s, minSyncPeriod: 2s} => nftables.minSyncPeriod: must not be longer than the sync period (1s), is 2s
mode: iptables\\niptables: {syncPeriod: 500ms, minSyncPeriod: 1s} => iptables.minSyncPeriod: must not be longer than the sync period (500ms), is 1s
iptables: {syncPeriod: 500ms, minSyncPeriod: 1s} => iptables.minSyncPeriod: must not be longer than the sync period (500ms), is 1s
`);

for (const [yaml, message] of WRONG) {
  Deno.test(`the file line ${JSON.stringify(yaml)} is one clear error`, async () => {
    assertEquals(errorsOf(await loadFile(yaml)), [`${FILE}: ${message}`]);
  });
}

Deno.test("the name of an interface has no quote", async () => {
  assertEquals(errorsOf(await loadFile('detectLocal: {bridgeInterface: "br\\"0"}')), [
    `${FILE}: detectLocal.bridgeInterface: must be an interface name, at most 15 letters, digits ` +
    'or _ . : @ = -, is "br\\"0"',
  ]);
});

Deno.test("all problems of a file are reported at once, combinations included", async () => {
  const yaml = "nftables: {masqueradeBit: 40, bit: 1, syncPeriod: 1s, minSyncPeriod: 2s}\n" +
    "nodePortAddresses: [primary, 10.0.0.0/8, x]\nconntrack: {min: many}\n" +
    "detectLocalMode: BridgeInterface\n";
  assertEquals(errorsOf(await loadFile(yaml)), [
    `${FILE}: nftables.masqueradeBit: must be 0 to 31, is 40`,
    `${FILE}: nodePortAddresses[2]: must be a CIDR, primary, localhost or all, is "x"`,
    `${FILE}: conntrack.min: must be a whole number, 0 or more, is "many"`,
    `${FILE}: nftables.minSyncPeriod: must not be longer than the sync period (1s), is 2s`,
    `${FILE}: detectLocalMode: BridgeInterface needs --pod-bridge-interface or ` +
    "detectLocal.bridgeInterface",
  ]);
});

Deno.test("a file that is not a KubeProxyConfiguration is one error", async () => {
  const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n";
  const cases: readonly [string, string][] = [
    ["", 'must be a KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1, is ""'],
    ["[]", "must be a KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1, is []"],
    ["mode: ipvs", "apiVersion: must be kubeproxy.config.k8s.io/v1alpha1, is missing"],
    ["apiVersion: v1", 'apiVersion: must be kubeproxy.config.k8s.io/v1alpha1, is "v1"'],
    [head, "kind: must be KubeProxyConfiguration, is missing"],
    [`${head}kind: Service`, 'kind: must be KubeProxyConfiguration, is "Service"'],
    [
      `${head}kind: [`,
      "Cannot read flow collection: unexpected end of the stream within a flow collection " +
      "at line 3, column 1",
    ],
  ];
  for (const [text, message] of cases) {
    assertEquals(errorsOf(await load(["--config=x"], { x: text })), [`x: ${message}`]);
  }
});

Deno.test("a file that cannot be read is an error", async () => {
  assertEquals(errorsOf(await load(["--config", "/no\nwhere"])), [
    "/no\\nwhere: cannot be read: No such file",
  ]);
});

Deno.test("text that is not YAML behind a repeated field is an error", async () => {
  const yaml = 'conntrack: {min: 1, min: 2}\nmode: "\u0007"\n';
  assertEquals(errorsOf(await loadFile(yaml)).length, 1);
});
