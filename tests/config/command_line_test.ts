import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { casesOf, wordsOf } from "../support/table.ts";
import {
  configurationOf,
  errorsOf,
  FILE,
  helpOf,
  load,
  loadFile,
  runOf,
  SIGNPOST,
  UNUSED,
} from "./support.ts";

/** The command of a command line without words and flags. */
const RUN = {
  name: "run",
  once: false,
  output: "script",
  cleanup: false,
  initOnly: false,
  writeConfigTo: "",
};

const CLEANUP = { name: "cleanup", cleanup: false, kubeProxy: false, dryRun: false, force: false };

Deno.test("without flags everything has kube-proxy's default", async () => {
  const mode = {
    masqueradeAll: false,
    masqueradeBit: 14,
    syncPeriod: 30_000,
    minSyncPeriod: "adaptive",
  };
  assertEquals(await load([]), {
    type: "run",
    command: RUN,
    given: [],
    settings: { featureGates: {} },
    configuration: {
      bindAddress: "0.0.0.0",
      bindAddressHardFail: false,
      healthzBindAddress: "0.0.0.0:10256",
      metricsBindAddress: "127.0.0.1:10249",
      clientConnection: {
        kubeconfig: "",
        acceptContentTypes: "",
        contentType: "application/vnd.kubernetes.protobuf",
        qps: 5,
        burst: 10,
      },
      ...UNUSED,
      master: "",
      mode: "",
      clusterCIDRs: [],
      detectLocalMode: "ClusterCIDR",
      detectLocal: { bridgeInterface: "", interfaceNamePrefix: "" },
      hostnameOverride: "",
      nodePortAddresses: [],
      oomScoreAdj: -999,
      nftables: mode,
      iptables: { ...mode, localhostNodePorts: true },
      conntrack: {
        maxPerCore: 32_768,
        min: 131_072,
        tcpEstablishedTimeout: 86_400_000,
        tcpCloseWaitTimeout: 3_600_000,
        tcpBeLiberal: false,
        udpTimeout: 0,
        udpStreamTimeout: 0,
        tcpFinWaitTimeout: 0,
      },
      configSyncPeriod: 900_000,
      featureGates: {},
      signpost: SIGNPOST,
    },
    warnings: [],
  });
});

/** Flags, and the parts of the configuration that they change. */
const FLAGS = casesOf(`
--kubeconfig=/k => clientConnection.kubeconfig="/k"
--kube-api-content-type=application/json => clientConnection.contentType="application/json"
--master https://10.0.0.1:6443/ => master="https://10.0.0.1:6443"
--hostname-override=Node-1 => hostnameOverride="node-1"
--proxy-mode iptables => mode="iptables"
--proxy-mode= => mode=""
--cluster-cidr=10.0.0.0/8,fd00::/8 => clusterCIDRs=["10.0.0.0/8","fd00::/8"]
--cluster-cidr 10.0.0.0/8 => clusterCIDRs=["10.0.0.0/8"]
--cluster_cidr=10.0.0.0/8 => clusterCIDRs=["10.0.0.0/8"]
--detect-local-mode=NodeCIDR => detectLocalMode="NodeCIDR"
--detect-local-mode=BridgeInterface --pod-bridge-interface=cni0 => detectLocal.bridgeInterface="cni0"
--pod-interface-name-prefix=cali => detectLocal.interfaceNamePrefix="cali"
--nodeport-addresses=primary => nodePortAddresses=["primary"]
--nodeport-addresses=primary,localhost --nodeport-addresses=10.0.0.0/8 => nodePortAddresses=["primary","localhost","10.0.0.0/8"]
'--nodeport-addresses=10.0.0.0/8, 11.0.0.0/8' --nodeport-addresses fd00::/8 => nodePortAddresses=["10.0.0.0/8","11.0.0.0/8","fd00::/8"]
--masquerade-all => nftables.masqueradeAll=true iptables.masqueradeAll=true
--masquerade-all=true => nftables.masqueradeAll=true
--masquerade-all=f => nftables.masqueradeAll=false
--masquerade-all --masquerade-all=false => nftables.masqueradeAll=false
--iptables-masquerade-bit=3 --proxy-mode=nftables => nftables.masqueradeBit=14 iptables.masqueradeBit=3
--iptables-masquerade-bit=3 => nftables.masqueradeBit=3 iptables.masqueradeBit=3
--nftables-masquerade-bit=4 => nftables.masqueradeBit=4 iptables.masqueradeBit=14
--iptables-sync-period=1m --iptables-min-sync-period 10ms => nftables.syncPeriod=60000 iptables.syncPeriod=60000 nftables.minSyncPeriod=10
--iptables-sync-period=1ms => nftables.minSyncPeriod="adaptive"
--iptables-min-sync-period=0 => nftables.minSyncPeriod=0
--iptables-localhost-nodeports=false => iptables.localhostNodePorts=false
--bind-address=:: => bindAddress="::"
--bind-address=:: => healthzBindAddress="0.0.0.0:10256"
--bind-address=:: => metricsBindAddress="127.0.0.1:10249"
--bind-address-hard-fail => bindAddressHardFail=true
--healthz-bind-address=127.0.0.1 => healthzBindAddress="127.0.0.1:10256"
--healthz-bind-address=::1 => healthzBindAddress="[::1]:10256"
--healthz-bind-address=[::1]:80 => healthzBindAddress="[::1]:80"
--healthz-bind-address= => healthzBindAddress=""
--metrics-bind-address= => metricsBindAddress=""
--conntrack-max-per-core=0 => conntrack.maxPerCore=0
--conntrack-min=7 => conntrack.min=7
--conntrack-tcp-timeout-established=0s => conntrack.tcpEstablishedTimeout=0
--conntrack-tcp-timeout-close-wait=2h => conntrack.tcpCloseWaitTimeout=7200000
--conntrack-tcp-be-liberal => conntrack.tcpBeLiberal=true
--conntrack-udp-timeout=1s => conntrack.udpTimeout=1000
--conntrack-udp-timeout-stream=1s => conntrack.udpStreamTimeout=1000
--oom-score-adj -500 => oomScoreAdj=-500
--config-sync-period=1h => configSyncPeriod=3600000
--v=4 => logging.verbosity=4
--v 4 => logging.verbosity=4
-v 4 => logging.verbosity=4
-v4 => logging.verbosity=4
-v=4 => logging.verbosity=4
-v1 -v2 => logging.verbosity=2
-v => logging.verbosity=1
-v --wait => logging.verbosity=1
--logging-format=json => logging.format="json"
--feature-gates=AllowServiceExternalIPs=false => featureGates={"AllowServiceExternalIPs":false}
--manifests a,b --manifests=- => signpost.manifests=["a,b","-"]
--manifests - => signpost.manifests=["-"]
--state-file '' => signpost.stateFile=""
--socket=/s => signpost.socket="/s"
--proxy-from-environment => signpost.proxyFromEnvironment=true
--wait => signpost.wait=true
--ipvs-grace-period=0s => signpost.ipvsGracePeriod=0
--full-sync-period=10m => signpost.fullSyncPeriod=600000
--max-service-cost=11 --max-namespace-cost=12 => signpost.limits={"service":11,"namespace":12}
--service-metrics=false => signpost.serviceMetrics=false
`);

for (const [line, parts] of FLAGS) {
  Deno.test(`${line} sets its part of the configuration`, async () => {
    const configuration: unknown = configurationOf(await load(wordsOf(line)));
    for (const [, path = "", value = ""] of parts.matchAll(/(\S+?)=(\S+)/g)) {
      assertEquals(partOf(configuration, path.split(".")), JSON.parse(value), path);
    }
  });
}

function partOf(value: unknown, [name, ...rest]: readonly string[]): unknown {
  return name === undefined ? value : partOf((value as Record<string, unknown>)[name], rest);
}

Deno.test("the words of k3s start signpost", async () => {
  const configuration = configurationOf(
    await load(wordsOf(`
      --cluster-cidr=10.42.0.0/16 --conntrack-max-per-core=0 --conntrack-tcp-timeout-close-wait=0s
      --conntrack-tcp-timeout-established=0s --healthz-bind-address=127.0.0.1
      --hostname-override=node-1 --kubeconfig=/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig
      --proxy-mode=iptables
    `)),
  );
  assertEquals(configuration.conntrack.tcpCloseWaitTimeout, 0);
  assertEquals(configuration.healthzBindAddress, "127.0.0.1:10256");
});

Deno.test("flags win over the file, each for itself", async () => {
  const yaml = "mode: nftables\nclusterCIDR: 10.0.0.0/8\nhealthzBindAddress: 10.0.0.1:1\n" +
    "conntrack: {min: 5, maxPerCore: 6}\nfeatureGates: {AllowServiceExternalIPs: true}\n" +
    "nodePortAddresses: [10.0.0.0/8]\nlogging: {format: json, verbosity: 1}\n";
  const configuration = configurationOf(
    await loadFile(
      yaml,
      wordsOf(`
      --proxy-mode=iptables --cluster-cidr= --healthz-bind-address= --conntrack-min=0
      --feature-gates=AllowServiceExternalIPs=false --nodeport-addresses= -v7
    `),
    ),
  );
  assertEquals(configuration.mode, "iptables");
  assertEquals(configuration.clusterCIDRs, []);
  assertEquals(configuration.healthzBindAddress, "");
  assertEquals([configuration.conntrack.min, configuration.conntrack.maxPerCore], [0, 6]);
  assertEquals(configuration.featureGates, { AllowServiceExternalIPs: false });
  assertEquals(configuration.nodePortAddresses, []);
  assertEquals([configuration.logging.verbosity, configuration.logging.format], [7, "json"]);
});

Deno.test("the deprecated port flags set the port, or turn the server off, with a warning", async () => {
  const { configuration, warnings } = runOf(
    await load(["--healthz-port=99", "--metrics-port=0", "--healthz-bind-address=10.0.0.1"]),
  );
  assertEquals(warnings, [
    "--healthz-port: deprecated, use --healthz-bind-address",
    "--metrics-port: deprecated, use --metrics-bind-address",
  ]);
  assertEquals(configuration.healthzBindAddress, "10.0.0.1:99");
  assertEquals(configuration.metricsBindAddress, "");
});

/** Command lines with one error each. */
const WRONG = casesOf(`
--proxy-mod=nftables => --proxy-mod: unknown flag (did you mean --proxy-mode?)
--xyzzy 1 => --xyzzy: unknown flag
-x => -x: unknown flag
-once => -once: unknown flag (did you mean --once?)
clenup => "clenup": unknown command or unexpected word (did you mean cleanup?)
begin => "begin": unknown command or unexpected word (commands: run, check, bundle, cleanup, explain, test, verify, status, top, observe, diff, migrate, completions, version, licenses)
--once cleanup => cleanup: the command must be the first word
--masquerade-all false => false: unexpected word (write --masquerade-all=false)
--config => --config: needs a value (FILE)
--config --once => --config: needs a value (FILE)
--once=maybe => --once: must be true or false, is "maybe"
--once --output=xml => --output: must be script or json, is "xml"
-o json => --output: only with --once
--dry-run => --dry-run: is only for the command cleanup, not for run
cleanup --once => --once: is only for the commands run, top, not for cleanup
--cleanup --once => --once: is only for the commands run, top, not for cleanup
explain a/b --cleanup => --cleanup: is only for the commands run, cleanup, not for explain
diff --manifests=x -oscript => --output: must be table, json or yaml, is "script"
verify now => "now": unknown command or unexpected word (commands: run, check, bundle, cleanup, explain, test, verify, status, top, observe, diff, migrate, completions, version, licenses)
--iptables-masquerade-bit=32 => --iptables-masquerade-bit: must be 0 to 31, is 32
--iptables-masquerade-bit=x => --iptables-masquerade-bit: must be a whole number, is "x"
--iptables-masquerade-bit=014 => --iptables-masquerade-bit: must be a whole number, is "014"
--oom-score-adj=-1001 => --oom-score-adj: must be -1000 to 1000, is -1001
--conntrack-udp-timeout=5 => --conntrack-udp-timeout: must be a duration such as 30s, 500ms or 1h30m, is "5"
--iptables-sync-period=0 => --iptables-sync-period: must be above 0
--iptables-sync-period=-1s => --iptables-sync-period: must not be negative, is "-1s"
--iptables-min-sync-period=1m => --iptables-min-sync-period: must not be longer than the sync period (30s), is 1m0s
--iptables-sync-period=1ms --iptables-min-sync-period=1s => --iptables-min-sync-period: must not be longer than the sync period (1ms), is 1s
--config-sync-period=0s => --config-sync-period: must be above 0
--full-sync-period=0s => --full-sync-period: must be above 0
--nodeport-addresses=all --nodeport-addresses=primary,all => --nodeport-addresses: Duplicate value: "all"
--nodeport-addresses=x => --nodeport-addresses: must be a CIDR, primary, localhost or all, is "x"
--detect-local-mode=BridgeInterface => --detect-local-mode: BridgeInterface needs --pod-bridge-interface or detectLocal.bridgeInterface
--feature-gates=A => --feature-gates: must be a list such as Name=true,Other=false, is "A"
--master=10.0.0.1:6443 => --master: must be a URL such as https://10.0.0.1:6443, is "10.0.0.1:6443"
--master=https://u:secret@h => --master: must not hold a password: use a kubeconfig
--manifests= => --manifests: must be a file, a folder or -, is empty
cleanup --init-only => --init-only: is only for the command run, not for cleanup
--ipvs-tcp-timeout=x => --ipvs-tcp-timeout: must be a duration such as 30s, 500ms or 1h30m, is "x"
--cluster-cidr=99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999 => --cluster-cidr: must be a CIDR such as 10.244.0.0/16, or one IPv4 and one IPv6 CIDR with a comma, is "9999999999999999999999999999999999999999999999999999999999999999999999999999999…
`);

for (const [line, message] of WRONG) {
  Deno.test(`the command line ${line.slice(0, 60)} is one clear error`, async () => {
    assertEquals(errorsOf(await load(wordsOf(line))), [message]);
  });
}

Deno.test("an unknown flag with a line feed is one line", async () => {
  assertEquals(errorsOf(await load(["--x\ny=1"])), ["--x\\ny: unknown flag"]);
});

Deno.test("problems of flags and of the file are reported together", async () => {
  const yaml = "conntrack: {min: -1}\nnftables: {minSyncPeriod: 40s}\n";
  const flags = ["--cluster-cidr=x", "--nope", "--iptables-sync-period=20s"];
  assertEquals(errorsOf(await loadFile(yaml, flags)), [
    "--nope: unknown flag",
    "--cluster-cidr: must be a CIDR such as 10.244.0.0/16, or one IPv4 and one IPv6 CIDR with a " +
    'comma, is "x"',
    `${FILE}: conntrack.min: must be a whole number, 0 or more, is -1`,
    `${FILE}: nftables.minSyncPeriod: must not be longer than the sync period (20s), is 40s`,
  ]);
});

Deno.test("commands have their own options", async () => {
  const cases: readonly [readonly string[], unknown][] = [
    [["run"], RUN],
    [["--once"], { ...RUN, once: true }],
    [["run", "--once", "-o=json"], { ...RUN, once: true, output: "json" }],
    [["--once", "-ojson"], { ...RUN, once: true, output: "json" }],
    [["--init-only"], { ...RUN, initOnly: true }],
    [["--init-only=false"], RUN],
    [["--write-config-to=/x"], { ...RUN, writeConfigTo: "/x" }],
    [["--write-config-to="], RUN],
    [["cleanup"], CLEANUP],
    [["--cleanup"], { ...CLEANUP, cleanup: true }],
    [["--cleanup=true", "--dry-run"], { ...CLEANUP, cleanup: true, dryRun: true }],
    [["--cleanup=false"], RUN],
    [["--cleanup=0"], RUN],
    [["--cleanup", "--cleanup=F"], RUN],
    [["--help=f", "--version=0"], RUN],
    [["cleanup", "--kube-proxy", "--force"], { ...CLEANUP, kubeProxy: true, force: true }],
  ];
  for (const [argv, command] of cases) assertEquals(runOf(await load(argv)).command, command);
});

Deno.test("help and version win over errors", async () => {
  assertEquals(await load(["--nope", "--version"]), { type: "version" });
  assertEquals(await load(["--version=raw"]), { type: "version" });
  for (const argv of [["help", "run"], ["run", "-h"], ["run", "--nope", "--help"]]) {
    const help = helpOf(await load(argv));
    assertStringIncludes(help, "\n  --cluster-cidr CIDRS\n");
    assertStringIncludes(help, "\n  -v, --v LEVEL\n");
    assertStringIncludes(help, "\nExit codes:\n");
    assert(!help.includes("--kube-proxy\n"));
  }
  const help = helpOf(await load(["cleanup", "--help"]));
  assertStringIncludes(help, "\n  --kube-proxy\n");
  assert(!help.includes("\n  --once\n"));
});

Deno.test("the help text has every flag on a line of its own", async () => {
  const help = helpOf(await load(["run", "--help"]));
  const flags = help.split("\n").filter((line) => /^ {2}(-\w, )?--[a-z]/.test(line));
  assert(flags.length > 60, `${flags.length}`);
  const names = flags.map((line) => /--[a-z-]+/.exec(line)?.[0]);
  assertEquals(new Set(names).size, names.length);
});
