/**
 * kube-proxy's own cases for flags and file, by the names of its tests (cmd/kube-proxy/app and
 * pkg/proxy/apis/config/validation), and the files that were laid beside it. Where signpost differs on
 * purpose, the case says so.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { toKubeProxyConfiguration } from "../../lib/config/configuration.ts";
import { configurationOf, errorsOf, FILE, load, loadFile, runOf } from "./support.ts";

Deno.test("TestProcessHostnameOverrideFlag", async () => {
  const named = async (flag: string) =>
    runOf(await loadFile("hostnameOverride: foo", [`--hostname-override=${flag}`])).configuration
      .hostnameOverride;
  assertEquals(configurationOf(await loadFile("hostnameOverride: foo")).hostnameOverride, "foo");
  assertEquals(await named("  bar "), "bar");
  assertEquals(errorsOf(await loadFile("", ["--hostname-override=   "])).length, 1);
});

const LOGGING = `logging:
  format: json
  flushFrequency: 1s
  verbosity: 10
  vmodule: [{filePattern: foo.go, verbosity: 6}, {filePattern: bar.go, verbosity: 8}]
`;

Deno.test("TestOptionsComplete", async () => {
  const fresh = runOf(await load([])).configuration;
  assertEquals(runOf(await loadFile("")).configuration, fresh);
  const { configuration } = runOf(await loadFile(LOGGING));
  assertEquals(configuration.logging, {
    ...fresh.logging,
    format: "json",
    flushFrequency: 1_000,
    verbosity: 10,
    vmodule: [{ filePattern: "foo.go", verbosity: 6 }, { filePattern: "bar.go", verbosity: 8 }],
  });
  assertEquals(
    runOf(await load(["-v=7", "--vmodule", "goo.go=8"])).configuration.logging.verbosity,
    7,
  );
  // "both": flags win over the file, for all settings; kube-proxy lets only logging flags win.
  const both = runOf(await loadFile(LOGGING, ["-v=7", "--ipvs-scheduler", "some"]));
  assertEquals([both.configuration.logging.verbosity, both.configuration.ipvs.scheduler], [
    7,
    "some",
  ]);
});

Deno.test("TestAddressFromDeprecatedFlags", async () => {
  const addresses = async (...argv: readonly string[]) => {
    const { healthzBindAddress, metricsBindAddress } = runOf(await load(argv)).configuration;
    return [healthzBindAddress, metricsBindAddress];
  };
  assertEquals(
    await addresses(
      "--healthz-bind-address=1.2.3.4",
      "--healthz-port=12345",
      "--metrics-bind-address=2.3.4.5",
      "--metrics-port=23456",
    ),
    ["1.2.3.4:12345", "2.3.4.5:23456"],
  );
  assertEquals(
    await addresses(
      "--healthz-bind-address=1.2.3.4:12345",
      "--healthz-port=23456",
      "--metrics-bind-address=2.3.4.5:12345",
      "--metrics-port=23456",
    ),
    ["1.2.3.4:12345", "2.3.4.5:12345"],
  );
  assertEquals(
    await addresses("--healthz-bind-address=fd00:1::5", "--healthz-port=12345", "--metrics-port=0"),
    ["[fd00:1::5]:12345", ""],
  );
});

Deno.test("Test_platformApplyDefaults", async () => {
  const applied = async (yaml: string) => {
    const { mode, detectLocalMode } = runOf(await loadFile(yaml)).configuration;
    return [mode, detectLocalMode];
  };
  // Deliberate: nftables is tried first where no mode is set; a warning says what differs.
  assertEquals(await applied('mode: ""\ndetectLocalMode: ""'), ["", "ClusterCIDR"]);
  assertEquals(await applied("mode: iptables\ndetectLocalMode: ClusterCIDR"), [
    "iptables",
    "ClusterCIDR",
  ]);
  assertEquals(await applied("detectLocalMode: NodeCIDR"), ["", "NodeCIDR"]);
});

/** The base of kube-proxy's validation cases. */
const VALID = `
bindAddress: 192.168.59.103
healthzBindAddress: 0.0.0.0:10256
metricsBindAddress: 127.0.0.1:10249
clusterCIDR: 192.168.59.0/24
configSyncPeriod: 1s
iptables: {masqueradeAll: true, syncPeriod: 5s, minSyncPeriod: 2s}
nftables: {masqueradeAll: true, syncPeriod: 5s, minSyncPeriod: 2s}
conntrack: {maxPerCore: 1, min: 1, tcpEstablishedTimeout: 5s, tcpCloseWaitTimeout: 5s}
`;

/** A name, a line in the place of one of the base, and the setting that is refused; none: valid. */
type FileCase = readonly [string, string, string?];

/** Adds kube-proxy's cases of a test. */
function testFiles(test: string, cases: readonly FileCase[]): void {
  for (const [name, line, refused] of cases) {
    Deno.test(`${test}: ${name}`, async () => {
      const keys = line.split("\n").map((each) => each.split(":")[0] ?? "");
      const base = VALID.split("\n").filter((each) => !keys.includes(each.split(":")[0] ?? ""));
      const invocation = await loadFile([...base, line].join("\n"));
      if (refused === undefined) return void runOf(invocation);
      const errors = errorsOf(invocation);
      assertEquals(errors.length, 1, errors.join());
      assertEquals(errors[0]?.startsWith(`${FILE}: ${refused}`), true, errors[0]);
    });
  }
}

testFiles("TestLoadConfig", [
  ["iptables mode, IPv4 all-zeros bind address", "mode: iptables\nbindAddress: 0.0.0.0"],
  ['iptables mode, IPv6 "::" bind address', 'mode: iptables\nbindAddress: "::"'],
  ["iptables mode, IPv6 ::0 bind address", "mode: iptables\nbindAddress: ::0"],
  ['iptables mode, IPv6 "[::]" bind address', 'bindAddress: "[::]"', "bindAddress"],
  ["unknown field", "foo: bar"],
  ["duplicate field", "bindAddress: 9.8.7.6\nbindAddress: 9.8.7.6"],
]);

testFiles("TestLoadConfigFailures", [[
  "Missing quotes around :: bindAddress",
  "bindAddress: ::",
  "",
]]);

testFiles("TestValidateKubeProxyConfiguration", [
  ["no changes", ""],
  ["empty HealthzBindAddress", 'healthzBindAddress: ""'],
  ["single family addresses", "bindAddress: fd00:192:168:59::103"],
  ["dual-stack cluster CIDRs", "clusterCIDR: 192.168.59.0/24,fd00:192:168::/64"],
  ["invalid BindAddress", "bindAddress: 10.10.12.11:2000", "bindAddress"],
  ["invalid HealthzBindAddress", "healthzBindAddress: localhost", "healthzBindAddress"],
  ["invalid MetricsBindAddress", "metricsBindAddress: localhost:1", "metricsBindAddress"],
  ["ConfigSyncPeriod must be > 0", "configSyncPeriod: -1s", "configSyncPeriod"],
  ["IPTables SyncPeriod", "iptables: {syncPeriod: -5s}\nmode: iptables", "iptables.syncPeriod"],
  ["NFTables SyncPeriod", "nftables: {syncPeriod: -5s}\nmode: nftables", "nftables.syncPeriod"],
  ["NFTables SyncPeriod, iptables mode", "nftables: {syncPeriod: -5s}\nmode: iptables"],
  ["IPVS SyncPeriod, iptables mode", "ipvs: {syncPeriod: -5s}\nmode: iptables"],
  ["ClusterCIDR missing subset range", "clusterCIDR: 192.168.59.0", "clusterCIDR"],
  ["Invalid number of ClusterCIDRs", "clusterCIDR: 1.0.0.0/8,fd00::/8,2.0.0.0/8", "clusterCIDR"],
  ["mixed IPv4/IPv6 BridgeInterface", "detectLocalMode: BridgeInterface", "detectLocalMode"],
  ["invalid DetectLocalMode", "detectLocalMode: Guess", "detectLocalMode"],
  ["invalid NodePortAddresses", 'nodePortAddresses: ["foo"]', "nodePortAddresses[0]"],
  ["all NodePortAddresses words", "nodePortAddresses: [primary, localhost, all]"],
  ["NodePortAddresses words and CIDRs", "nodePortAddresses: [primary, 127.0.0.0/8, fd00::/8]"],
  ["a NodePortAddresses CIDR twice", "nodePortAddresses: [10.0.0.0/8, 10.0.0.0/8]"],
  [
    "a NodePortAddresses word twice",
    "nodePortAddresses: [primary, 10.0.0.0/8, primary]",
    "nodePortAddresses[2]",
  ],
  ["oom score out of range", "oomScoreAdj: -1001", "oomScoreAdj"],
]);

Deno.test("the bind address of a file decides about the servers' hosts, the flag does not", async () => {
  const hosts = async (loaded: ReturnType<typeof load>) => {
    const { healthzBindAddress, metricsBindAddress } = configurationOf(await loaded);
    return [healthzBindAddress, metricsBindAddress];
  };
  assertEquals(await hosts(loadFile('bindAddress: "fd00::1"')), ["[::]:10256", "[::1]:10249"]);
  assertEquals(await hosts(load(["--bind-address=fd00::1"])), [
    "0.0.0.0:10256",
    "127.0.0.1:10249",
  ]);
});

Deno.test("the booleans of YAML 1.1", async () => {
  const yaml =
    "conntrack: {tcpBeLiberal: yes}\niptables: {masqueradeAll: Y, localhostNodePorts: Off}";
  const { conntrack, iptables } = configurationOf(await loadFile(yaml));
  const { masqueradeAll, localhostNodePorts } = iptables;
  assertEquals([conntrack.tcpBeLiberal, masqueradeAll, localhostNodePorts], [true, true, false]);
});

Deno.test("a client without a rate limit", async () => {
  for (const loaded of [loadFile("clientConnection: {qps: -1}"), load(["--kube-api-qps=-1"])]) {
    assertEquals(runOf(await loaded).configuration.clientConnection.qps, -1);
  }
});

Deno.test("TestValidateProxyMode", async () => {
  for (const mode of ["", "iptables", "nftables", "ipvs"]) runOf(await loadFile(`mode: "${mode}"`));
  for (const mode of ["non-existing", "kernelspace"]) {
    assertEquals(errorsOf(await loadFile(`mode: ${mode}`)).length, 1);
  }
  runOf(await loadFile("ipvs: {scheduler: rr, syncPeriod: 10s, minSyncPeriod: 5s}"));
});

/** Loads a file of tests/testdata/parity. */
async function parity(name: string) {
  const path = new URL(`../testdata/parity/${name}.yaml`, import.meta.url);
  return await load(["--config=x"], { x: await Deno.readTextFile(path) });
}

Deno.test("parity cfg1: a cluster CIDR that detects nothing is not judged", async () => {
  const { configuration, warnings } = runOf(await parity("cfg1"));
  assertEquals([configuration.mode, configuration.clusterCIDRs], ["nftables", []]);
  assertEquals(warnings, ["without effect in signpost: x: logging.vmodule"]);
});

Deno.test("parity cfg2: mode ipvs is taken", async () => {
  const { configuration, warnings } = runOf(await parity("cfg2"));
  assertEquals(configuration.mode, "nftables");
  assertEquals(warnings[0], "x: mode: ipvs is served by nftables rules, see docs/ipvs.md");
});

Deno.test("parity cfg3: sections of other modes are not judged, an address is", async () => {
  assertEquals(errorsOf(await parity("cfg3")), [
    "x: metricsBindAddress: must be an IP address and a port, such as 0.0.0.0:10256 or " +
    '[::]:10256, is "localhost:10249"',
  ]);
});

/** The kubeconfig that kubeadm's files name. */
const KUBECONFIG = "/var/lib/kube-proxy/kubeconfig.conf";

Deno.test("parity oldkubeadm: fields of old releases are one warning each", async () => {
  const { configuration, warnings } = runOf(await parity("oldkubeadm"));
  const { mode, clusterCIDRs, clientConnection } = configuration;
  assertEquals([mode, clusterCIDRs, clientConnection.kubeconfig], [
    "",
    ["10.244.0.0/16"],
    KUBECONFIG,
  ]);
  assertEquals(warnings, [
    "x: resourceContainer: is not a known field, left out",
    "x: udpIdleTimeout: is not a known field, left out",
    "without effect in signpost: x: featureGates.SupportIPVSProxyMode",
  ]);
});

Deno.test("parity newkubeadm: /configz has kube-proxy's defaults", async () => {
  const { configuration } = runOf(await parity("newkubeadm"));
  const flags = ["--cluster-cidr=10.244.0.0/16", `--kubeconfig=${KUBECONFIG}`];
  const featureGates = { SupportIPVSProxyMode: true };
  assertEquals(configuration, { ...configurationOf(await load(flags)), featureGates });
  const json = JSON.stringify(toKubeProxyConfiguration(configuration));
  assertMatch(json, /"healthzBindAddress":"0\.0\.0\.0:10256"/);
  assertMatch(
    json,
    /"iptables":\{"localhostNodePorts":true,"masqueradeAll":false,"masqueradeBit":14/,
  );
});
