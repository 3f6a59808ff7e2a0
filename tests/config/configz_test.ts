import { assertEquals } from "@std/assert";
import { toKubeProxyConfiguration } from "../../lib/config/configz.ts";
import { configurationOf, load } from "./support.ts";

Deno.test("the configuration prints as a KubeProxyConfiguration", async () => {
  const configuration = configurationOf(
    await load(["--cluster-cidr=10.0.0.0/8,fd00::/8", "--v=2", "--nodeport-addresses=primary"]),
  );
  const mode = { masqueradeAll: false, masqueradeBit: 14, minSyncPeriod: "1s", syncPeriod: "30s" };
  assertEquals(toKubeProxyConfiguration(configuration), {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    bindAddress: "0.0.0.0",
    bindAddressHardFail: false,
    clientConnection: {
      kubeconfig: "",
      acceptContentTypes: "",
      contentType: "application/vnd.kubernetes.protobuf",
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
    featureGates: {},
    healthzBindAddress: "0.0.0.0:10256",
    hostnameOverride: "",
    iptables: { localhostNodePorts: true, ...mode },
    logging: { format: "text", verbosity: 2 },
    metricsBindAddress: "127.0.0.1:10249",
    mode: "",
    nftables: mode,
    nodePortAddresses: ["primary"],
    oomScoreAdj: -999,
  });
});

Deno.test("the printed configuration is read as the same one", async () => {
  const flags = [
    "--bind-address=2001:db8::1",
    "--detect-local-mode=InterfaceNamePrefix",
    "--pod-interface-name-prefix=cali",
    "--proxy-mode=iptables",
    "--masquerade-all",
    "--iptables-min-sync-period=10ms",
    "--conntrack-udp-timeout=1.5s",
    "--feature-gates=AllowServiceExternalIPs=false",
    "--hostname-override=n",
    "--kubeconfig=/k",
    "--kube-api-content-type=application/json",
    "--logging-format=json",
    "--nodeport-addresses=10.0.0.0/8",
  ];
  const configuration = configurationOf(await load(flags));
  const text = JSON.stringify(toKubeProxyConfiguration(configuration));
  assertEquals(configurationOf(await load(["--config=x"], { x: text })), configuration);
});
