import { assertEquals } from "@std/assert";
import { countsIn } from "../../../lib/backend/iptables/metrics.ts";

Deno.test("the counts of rules are read as iptables -v -S lists them", () => {
  const listing = `-N KUBE-SERVICES
-A KUBE-SERVICES -d fd00:10:96::a/128 -p sctp -m comment --comment "shop/web:http cluster IP" -m sctp --dport 80 -c 12 720 -j KUBE-SVL-AAAAAAAAAAAAAAAA
-A KUBE-NODEPORTS -p tcp -m comment --comment shop/web -m tcp --dport 30080 -c 5 300 -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES ! -d ::1/128 -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -c 3 4 -j KUBE-NODEPORTS
`;
  assertEquals([...countsIn([[6, listing]])], [
    { frontend: "IPv6 fd00:10:96::a . sctp . 80", service: "shop/web", connections: 12 },
    { frontend: "IPv6 tcp . 30080", service: "shop/web", connections: 5 },
  ]);
});

Deno.test("rules that refuse say why", () => {
  const listing =
    `-A KUBE-SERVICES -d 10.96.0.100/32 -p tcp -m comment --comment "shop/closed:http has no endpoints" -m tcp --dport 80 -c 40 2400 -j REJECT --reject-with icmp-port-unreachable
-A KUBE-EXTERNAL-SERVICES -p udp -m comment --comment "shop/web has no local endpoints" -m addrtype --dst-type LOCAL -m udp --dport 30080 -c 3 4 -j DROP
-A KUBE-PROXY-FIREWALL -d 192.0.2.10/32 -p tcp -m comment --comment "shop/web traffic not accepted by KUBE-FW-AAAAAAAAAAAAAAAA" -m tcp --dport 443 -c 2 3 -j DROP
`;
  assertEquals([...countsIn([[4, listing]])], [
    {
      frontend: "IPv4 10.96.0.100 . tcp . 80",
      service: "shop/closed",
      connections: 40,
      reason: "no-endpoints",
    },
    {
      frontend: "IPv4 udp . 30080",
      service: "shop/web",
      connections: 3,
      reason: "no-local-endpoints",
    },
    {
      frontend: "IPv4 192.0.2.10 . tcp . 443",
      service: "shop/web",
      connections: 2,
      reason: "source-range",
    },
  ]);
});
