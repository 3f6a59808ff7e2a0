import { assertEquals } from "@std/assert";
import {
  endpointChainName,
  HAIRPIN_CHAIN,
  isServiceChain,
  leadsToEndpoint,
  serviceChainNames,
} from "../../../../lib/backend/iptables/script/names.ts";

Deno.test("chains of a service port have the names that kube-proxy gives them", () => {
  assertEquals(serviceChainNames("default/kubernetes:https", "tcp"), {
    Cluster: "KUBE-SVC-NPX46M4PTMTKRN6Y",
    Local: "KUBE-SVL-NPX46M4PTMTKRN6Y",
    external: "KUBE-EXT-NPX46M4PTMTKRN6Y",
    firewall: "KUBE-FW-NPX46M4PTMTKRN6Y",
  });
  assertEquals(
    serviceChainNames("kube-system/kube-dns:dns", "udp").Cluster,
    "KUBE-SVC-TCOU7JCQXEZGVUNU",
  );
  assertEquals(serviceChainNames("ns1/svc1:p80", "tcp").Cluster, "KUBE-SVC-XPGD46QRK7WJZT7O");
});

Deno.test("the chain of an endpoint has the name that kube-proxy gives it", () => {
  const servicePort = { name: "ns1/svc1:p80", protocol: "tcp" } as const;
  const endpoint = { address: "10.180.0.1", port: 80 };
  assertEquals(endpointChainName(servicePort, endpoint), "KUBE-SEP-SXIVWICOYRO3J4NJ");
});

Deno.test("the fixed chain KUBE-EXTERNAL-SERVICES is not a service's chain", () => {
  assertEquals(isServiceChain("KUBE-EXTERNAL-SERVICES"), false);
  assertEquals(isServiceChain("KUBE-EXT-XPGD46QRK7WJZT7O"), true);
  assertEquals(isServiceChain(HAIRPIN_CHAIN), false);
});

Deno.test("an endpoint is reached by its chain, or by DNAT where it has none", () => {
  const targets = ["DNAT", "KUBE-SEP-XPGD46QRK7WJZT7O", HAIRPIN_CHAIN, "KUBE-MARK-MASQ"];
  assertEquals(targets.map(leadsToEndpoint), [true, true, false, false]);
});
