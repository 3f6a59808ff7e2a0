import { assertEquals } from "@std/assert";
import { knownGates } from "../../../lib/config/checks.ts";
import {
  configurationOf,
  errorsOf,
  FILE,
  load,
  loadFile,
  runOf,
  SIGNPOST,
  UNUSED,
} from "../support.ts";

/** Empty values that kubeadm 1.37 writes beside those of tests/testdata/parity/newkubeadm.yaml. */
const KUBEADM = `
conntrack: {tcpBeLiberal: false, udpStreamTimeout: 0s, udpTimeout: 0s}
detectLocal: {bridgeInterface: "", interfaceNamePrefix: ""}
featureGates: null
iptables: {localhostNodePorts: null, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}
winkernel: {enableDSR: false, forwardHealthCheckVip: false, rootHnsEndpointName: ""}
windowsRunAsService: false
`;

Deno.test("the nulls and empty values that kubeadm writes are defaults, without a warning", async () => {
  assertEquals(configurationOf(await loadFile(KUBEADM)), configurationOf(await load([])));
});

Deno.test("a section that is null is a section of defaults", async () => {
  const sections = ["clientConnection", "conntrack", "iptables", "nftables", "ipvs", "winkernel"];
  const yaml = sections.map((name) => `${name}: null\n`).join("") + "logging:\ndetectLocal:\n";
  assertEquals(configurationOf(await loadFile(yaml)), configurationOf(await load([])));
});

Deno.test("every field of a file arrives in the configuration", async () => {
  const configuration = configurationOf(
    await loadFile(`
bindAddress: 2001:db8:0::1
bindAddressHardFail: true
healthzBindAddress: "[::]:1256"
metricsBindAddress: 10.0.0.1
clientConnection:
  kubeconfig: /k
  acceptContentTypes: application/vnd.kubernetes.protobuf
  contentType: application/json
  qps: 5
  burst: 10
clusterCIDR: fd00:0::1/8 , 10.1.2.3/8
detectLocalMode: InterfaceNamePrefix
detectLocal: {bridgeInterface: cni0, interfaceNamePrefix: cali}
hostnameOverride: " Node-1.Example "
nodePortAddresses: [10.0.0.0/8, 10.1.1.1/8, fd00::/64]
oomScoreAdj: -1000
mode: iptables
nftables: {masqueradeAll: true, masqueradeBit: 0, syncPeriod: 1m, minSyncPeriod: 10ms}
iptables: {masqueradeBit: 31, syncPeriod: 2m, minSyncPeriod: 5s, localhostNodePorts: false}
conntrack:
  maxPerCore: 0
  min: 1
  tcpEstablishedTimeout: 0s
  tcpCloseWaitTimeout: 1m30s
  tcpBeLiberal: true
  udpTimeout: 30s
  udpStreamTimeout: 3m
configSyncPeriod: 1h
featureGates: {AllowServiceExternalIPs: false}
logging: {verbosity: 4, format: json}
`),
  );
  assertEquals(configuration, {
    bindAddress: "2001:db8::1",
    bindAddressHardFail: true,
    healthzBindAddress: "[::]:1256",
    metricsBindAddress: "10.0.0.1:10249",
    clientConnection: {
      kubeconfig: "/k",
      acceptContentTypes: "application/vnd.kubernetes.protobuf",
      contentType: "application/json",
      qps: 5,
      burst: 10,
    },
    ...UNUSED,
    logging: { ...UNUSED.logging, verbosity: 4, format: "json" },
    master: "",
    mode: "iptables",
    clusterCIDRs: ["fd00::/8", "10.0.0.0/8"],
    detectLocalMode: "InterfaceNamePrefix",
    detectLocal: { bridgeInterface: "cni0", interfaceNamePrefix: "cali" },
    hostnameOverride: "node-1.example",
    nodePortAddresses: ["10.0.0.0/8", "fd00::/64"],
    oomScoreAdj: -1000,
    nftables: { masqueradeAll: true, masqueradeBit: 0, syncPeriod: 60_000, minSyncPeriod: 10 },
    iptables: {
      masqueradeAll: false,
      masqueradeBit: 31,
      syncPeriod: 120_000,
      minSyncPeriod: 5_000,
      localhostNodePorts: false,
    },
    conntrack: {
      maxPerCore: 0,
      min: 1,
      tcpEstablishedTimeout: 0,
      tcpCloseWaitTimeout: 90_000,
      tcpBeLiberal: true,
      udpTimeout: 30_000,
      udpStreamTimeout: 180_000,
      tcpFinWaitTimeout: 0,
    },
    configSyncPeriod: 3_600_000,
    featureGates: { AllowServiceExternalIPs: false },
    signpost: SIGNPOST,
  });
});

Deno.test("everything that has no effect is named in one warning", async () => {
  const yaml =
    "winkernel: {networkName: a}\nipvs: {strictARP: true, excludeCIDRs: [10.0.0.0/8]}\n" +
    "enableProfiling: true\nportRange: 1-2\nfeatureGates: {AllAlpha: true}\n" +
    "clientConnection: {qps: 50}\nlogging: {vmodule: [{filePattern: a, verbosity: 3}]}\n";
  const flags = ["--ipvs-scheduler=rr", "--vmodule=a=1", "--profiling=false"];
  assertEquals(runOf(await loadFile(yaml, flags)).warnings, [
    `without effect in signpost: --ipvs-scheduler, ` +
    `${FILE}: ipvs.strictARP, ${FILE}: clientConnection.qps, ${FILE}: logging.vmodule, ` +
    `${FILE}: winkernel.networkName, ${FILE}: portRange, ${FILE}: featureGates.AllAlpha, ` +
    "--vmodule",
  ]);
});

Deno.test("localhost node ports that are asked for in nftables mode are a warning", async () => {
  const yaml = "mode: nftables\niptables: {localhostNodePorts: true}\n";
  assertEquals(runOf(await loadFile(yaml)).warnings, [
    `${FILE}: iptables.localhostNodePorts: without effect in nftables mode; add localhost to nodePortAddresses to have node ports on loopback`,
  ]);
});

Deno.test("where no mode is set, nftables takes over what the iptables section asks for", async () => {
  const yaml = "iptables: {masqueradeAll: true, masqueradeBit: 15, syncPeriod: 1m}\n";
  const taken = configurationOf(await loadFile(yaml)).nftables;
  assertEquals(taken, {
    masqueradeAll: true,
    masqueradeBit: 15,
    syncPeriod: 60_000,
    minSyncPeriod: "adaptive",
  });
  const apart = configurationOf(await loadFile(`mode: nftables\n${yaml}`)).nftables;
  assertEquals(apart, configurationOf(await load([])).nftables);
});

Deno.test("the section of the mode that is not used may hold odd periods", async () => {
  const yaml = "mode: nftables\niptables: {syncPeriod: 1s, minSyncPeriod: 5s}\n";
  assertEquals(configurationOf(await loadFile(yaml)).mode, "nftables");
});

for (const mode of ["", "nftables", "iptables"]) {
  Deno.test(`the example file says the defaults of mode "${mode}"`, async () => {
    const text = await Deno.readTextFile(new URL("../../../examples/config.yaml", import.meta.url));
    const yaml = text.replace(/^mode: .*$/m, `mode: "${mode}"`);
    const { configuration, warnings } = runOf(await load(["--config=x"], { x: yaml }));
    const flags = [
      "--kubeconfig=/etc/signpost/kubeconfig",
      "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56",
      "--feature-gates=AllowServiceExternalIPs=true",
      "--nodeport-addresses=primary",
      `--proxy-mode=${mode}`,
    ];
    assertEquals(configuration, configurationOf(await load(flags)));
    assertEquals(warnings, []);
  });
}

/** Lines that are ignored, and the one warning of each. */
const IGNORED: readonly [string, string][] = [
  ["nftable: {}", "nftable: is not a known field, left out (did you mean nftables?)"],
  [
    "conntrack: {maxPerCores: 1}",
    "conntrack.maxPerCores: is not a known field, left out (did you mean maxPerCore?)",
  ],
  ["zebraCrossing: 1", "zebraCrossing: is not a known field, left out"],
  ['"a\\nb": 1', "a\\nb: is not a known field, left out"],
  ["__proto__: {mode: ipvs}", "__proto__: is not a known field, left out"],
  [
    "detectLocal: {clusterCIDRs: [10.0.0.0/8]}",
    "detectLocal.clusterCIDRs: is not a known field, left out",
  ],
];

for (const [line, warning] of IGNORED) {
  Deno.test(`the file line ${JSON.stringify(line)} is one warning`, async () => {
    const { configuration, warnings } = runOf(await loadFile(line));
    assertEquals(warnings, [`${FILE}: ${warning}`]);
    assertEquals(configuration, configurationOf(await load([])));
  });
}

/** Files that set a field again, the line of the first one, and what `conntrack.min` is then. */
const REPEATED: readonly [yaml: string, line: number, min: number][] = [
  ["conntrack:\n  min: 1\n  min: 2\n", 5, 2],
  ["conntrack: {min: 1}\nconntrack:\n  min: 2\n  'min': 3\n  min: 4\n", 6, 4],
  ["conntrack: {min: 1, min: 2}\n", 3, 2],
];

for (const [yaml, line, min] of REPEATED) {
  Deno.test(`of a repeated field the last value counts: ${JSON.stringify(yaml)}`, async () => {
    const { configuration, warnings } = runOf(await loadFile(yaml));
    assertEquals(configuration.conntrack.min, min);
    assertEquals(warnings, [
      `${FILE}: line ${line}: a field is set more than once, the last value counts`,
    ]);
  });
}

Deno.test("of several documents the first counts", async () => {
  const { configuration, warnings } = runOf(await loadFile("mode: iptables\n---\nmode: ipvs\n"));
  assertEquals(configuration.mode, "iptables");
  assertEquals(warnings, [`${FILE}: only the first YAML document is used`]);
  assertEquals(runOf(await loadFile("mode: iptables\n---\n")).warnings, []);
});

/** Values that would be errors in the section of a mode that is used. */
const NOT_JUDGED: readonly string[] = [
  "mode: iptables\nnftables: {masqueradeBit: 99, syncPeriod: -1s}",
  "mode: nftables\niptables: {masqueradeBit: 99, minSyncPeriod: -1s}",
  "ipvs: {tcpTimeout: -1s}",
  "clusterCIDR: x\ndetectLocalMode: NodeCIDR",
];

for (const yaml of NOT_JUDGED) {
  Deno.test(`what is not used is not judged: ${JSON.stringify(yaml)}`, async () => {
    configurationOf(await loadFile(yaml));
  });
}

Deno.test("a feature gate is refused where kube-proxy refuses it for certain", async () => {
  const gates: readonly [string, string | undefined][] = [
    ["AllowServiceExternalIPs: false", undefined],
    ["MultiCIDRServiceAllocator: true", undefined],
    [
      "MultiCIDRServiceAllocator: false",
      "MultiCIDRServiceAllocator: is locked to true, leave it out",
    ],
    [
      "RelaxedServiceNameValidation: false",
      "RelaxedServiceNameValidation: is locked to true, leave it out",
    ],
    ["KubeProxyIPVS: false", undefined],
    ["KubeProxyNFTablesLocalhostNodePorts: true, NFTablesNetlink: false", undefined],
    [
      "AllowServiceExternalIP: false",
      "AllowServiceExternalIP: is not a feature gate (did you mean AllowServiceExternalIPs?)",
    ],
    ["external-ips: true", "external-ips: is not a feature gate"],
    // Gates of other releases and of other components.
    ["SupportIPVSProxyMode: true", undefined],
    ["NodeSwap: true", undefined],
  ];
  for (const [yaml, error] of gates) {
    const invocation = await loadFile(`featureGates: {${yaml}}`);
    if (error === undefined) runOf(invocation);
    else assertEquals(errorsOf(invocation), [`${FILE}: featureGates.${error}`]);
  }
});

Deno.test("mode ipvs is refused where the feature gate KubeProxyIPVS is off", async () => {
  const off = await loadFile("mode: ipvs\nfeatureGates: {KubeProxyIPVS: false}");
  assertEquals(errorsOf(off), [
    `${FILE}: mode: cannot be ipvs while the feature gate KubeProxyIPVS is false: use nftables`,
  ]);
  const on = await loadFile("mode: ipvs\nfeatureGates: {KubeProxyIPVS: true}");
  const { configuration, warnings } = runOf(on);
  assertEquals([configuration.mode, warnings.length], ["nftables", 1]);
});

Deno.test("the gates of kube-proxy 1.37 have its stages and defaults, but for what is set", () => {
  const states = (featureGates: Readonly<Record<string, boolean>>) =>
    knownGates({ featureGates }).map(({ name, stage, enabled }) => `${name} ${stage} ${enabled}`);
  assertEquals(states({}), [
    "AllowServiceExternalIPs  true",
    "KubeProxyIPVS DEPRECATED true",
    "KubeProxyNFTablesLocalhostNodePorts ALPHA false",
    "MultiCIDRServiceAllocator  true",
    "NFTablesNetlink BETA true",
    "NFTablesProxyMode  true",
    "PreferSameTrafficDistribution  true",
    "RelaxedServiceNameValidation  true",
  ]);
  const set = states({ AllowServiceExternalIPs: false, KubeProxyNFTablesLocalhostNodePorts: true });
  assertEquals([set[0], set[2]], [
    "AllowServiceExternalIPs  false",
    "KubeProxyNFTablesLocalhostNodePorts ALPHA true",
  ]);
});

Deno.test("a tab as indentation is an error with its line, not a field of another level", async () => {
  const invocation = await loadFile("nftables:\n\tminSyncPeriod: 5s\n");
  assertEquals(errorsOf(invocation), [
    `${FILE}: line 4: a tab is not valid as indentation, use spaces`,
  ]);
});
