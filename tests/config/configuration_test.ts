import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  inEffect,
  ownConfiguration,
  toKubeProxyConfiguration,
} from "../../lib/config/configuration.ts";
import { DEFAULT_LIMITS } from "../../lib/model/configuration.ts";
import { configurationOf, load, loadFile, runOf } from "./support.ts";
import { type Mode, traitsOf } from "../support/modes.ts";
import { wordsOf } from "../support/table.ts";

Deno.test("TestConfigz: the configuration prints as a KubeProxyConfiguration", async () => {
  const configuration = configurationOf(
    await load(["--cluster-cidr=10.0.0.0/8,fd00::/8", "--v=2", "--nodeport-addresses=primary"]),
  );
  const mode = { masqueradeAll: false, masqueradeBit: 14, minSyncPeriod: "0s", syncPeriod: "30s" };
  assertEquals(toKubeProxyConfiguration(configuration), {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    bindAddress: "0.0.0.0",
    bindAddressHardFail: false,
    clientConnection: {
      kubeconfig: "",
      acceptContentTypes: "",
      contentType: "application/vnd.kubernetes.protobuf",
      qps: 5,
      burst: 10,
    },
    clusterCIDR: "10.0.0.0/8,fd00::/8",
    configSyncPeriod: "15m0s",
    conntrack: {
      maxPerCore: 32_768,
      min: 131_072,
      tcpBeLiberal: false,
      tcpCloseWaitTimeout: "1h0m0s",
      tcpEstablishedTimeout: "24h0m0s",
      udpStreamTimeout: "0s",
      udpTimeout: "0s",
    },
    detectLocal: { bridgeInterface: "", interfaceNamePrefix: "" },
    detectLocalMode: "ClusterCIDR",
    enableProfiling: false,
    featureGates: {},
    healthzBindAddress: "0.0.0.0:10256",
    hostnameOverride: "",
    iptables: { localhostNodePorts: true, ...mode },
    ipvs: {
      excludeCIDRs: [],
      minSyncPeriod: "0s",
      scheduler: "",
      strictARP: false,
      syncPeriod: "30s",
      tcpFinTimeout: "0s",
      tcpTimeout: "0s",
      udpTimeout: "0s",
    },
    logging: {
      flushFrequency: "5s",
      format: "text",
      options: {
        json: { infoBufferSize: "0", splitStream: false },
        text: { infoBufferSize: "0", splitStream: false },
      },
      verbosity: 2,
      vmodule: [],
    },
    metricsBindAddress: "127.0.0.1:10249",
    mode: "",
    nftables: mode,
    nodePortAddresses: ["primary"],
    oomScoreAdj: -999,
    portRange: "",
    signpost: {
      acceleration: { interfaces: [], packets: 20, services: "all" },
      hash: "source",
      hashTableSize: 251,
      limits: DEFAULT_LIMITS,
      scheduler: "random",
      serviceMetrics: true,
    },
    showHiddenMetricsForVersion: "",
    windowsRunAsService: false,
    winkernel: {
      enableDSR: false,
      forwardHealthCheckVip: false,
      networkName: "",
      rootHnsEndpointName: "",
      sourceVip: "",
    },
  });
});

Deno.test("the printed configuration is read as the same one", async () => {
  const flags = wordsOf(`
    --bind-address=2001:db8::1 --detect-local-mode=InterfaceNamePrefix
    --pod-interface-name-prefix=cali --proxy-mode=iptables --masquerade-all
    --iptables-min-sync-period=10ms --conntrack-udp-timeout=1.5s
    --feature-gates=AllowServiceExternalIPs=false --hostname-override=n --kubeconfig=/k
    --kube-api-content-type=application/json --logging-format=json --nodeport-addresses=10.0.0.0/8
    --max-service-cost=7 --max-namespace-cost=8 --service-metrics=false
  `);
  const configuration = configurationOf(await load(flags));
  const text = JSON.stringify(toKubeProxyConfiguration(configuration));
  assertEquals(configurationOf(await load(["--config=x"], { x: text })), configuration);
});

Deno.test("settings without an effect are printed as they were given", async () => {
  const yaml =
    "ipvs: {scheduler: rr, syncPeriod: 1m, excludeCIDRs: [10.20.30.40/16, fd00:1::0/64]}\n" +
    "clientConnection: {qps: 7, burst: 9}\n" +
    "logging: {flushFrequency: 1000000, vmodule: [{filePattern: a.go, verbosity: 3}]}\n" +
    "portRange: 2-7\nwinkernel: {sourceVip: 10.0.0.1}\n";
  const text = JSON.stringify(toKubeProxyConfiguration(runOf(await loadFile(yaml)).configuration));
  for (
    const part of [
      '"scheduler":"rr"',
      '"syncPeriod":"1m0s"',
      '"excludeCIDRs":["10.20.0.0/16","fd00:1::/64"]',
      '"qps":7',
      '"burst":9',
      '"flushFrequency":"1ms"',
      '"vmodule":[{"filePattern":"a.go","verbosity":3}]',
      '"portRange":"2-7"',
      '"sourceVip":"10.0.0.1"',
    ]
  ) assertStringIncludes(text, part);
});

Deno.test("/configz has the mode in effect", async () => {
  const configuration = configurationOf(await load([]));
  const shown = (mode: Mode) => {
    const { nodePortAddresses, mode: chosen } = inEffect(configuration, traitsOf(mode));
    return [chosen, nodePortAddresses];
  };
  assertEquals(shown("nftables"), ["nftables", ["primary"]]);
  assertEquals(shown("iptables"), ["iptables", []]);
  const given = configurationOf(await load(["--nodeport-addresses=10.0.0.0/8"]));
  assertEquals(inEffect(given, traitsOf("nftables")).nodePortAddresses, ["10.0.0.0/8"]);
});

Deno.test("/configz prints an unset min sync period as 0s, as kubeadm's files do", async () => {
  const shown = async (flags: readonly string[]) => {
    const configuration = configurationOf(await load(flags));
    const { nftables } = configuration;
    return [nftables.minSyncPeriod, ownConfiguration(configuration, { name: "nftables" })];
  };
  assertEquals(await shown([]), ["adaptive", { minSyncPeriod: "adaptive" }]);
  assertEquals(await shown(["--iptables-min-sync-period=0"]), [0, { minSyncPeriod: "0s" }]);
  assertEquals(await shown(["--iptables-min-sync-period=1s"]), [1_000, { minSyncPeriod: "1s" }]);
});
