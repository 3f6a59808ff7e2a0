import { assertEquals } from "@std/assert";
import { countsIn } from "../../../../lib/backend/iptables/kernel/connection_counts.ts";

Deno.test("the counts of rules are read as iptables-save -c prints them", () => {
  const saved = `*filter
[7:420] -A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m comment --comment "a/b has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable
COMMIT
*nat
:KUBE-SERVICES - [0:0]
[2:120] -A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -j KUBE-EXT-AAAAAAAAAAAAAAAA
[3:180] -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA
[4:240] -A KUBE-SERVICES -d 192.0.2.10/32 -p udp -m comment --comment "shop/web loadbalancer IP" -m udp --dport 80 -j KUBE-FW-AAAAAAAAAAAAAAAA
[9:540] -A KUBE-SVC-AAAAAAAAAAAAAAAA -m comment --comment "shop/web:http" -j DNAT --to-destination 10.244.0.11:8080
COMMIT
`;
  assertEquals([...countsIn(4, saved)], [
    { frontend: "IPv4 tcp . 30080", service: "shop/web", connections: 2 },
    { frontend: "IPv4 10.96.0.10 . tcp . 80", service: "shop/web", connections: 3 },
    { frontend: "IPv4 192.0.2.10 . udp . 80", service: "shop/web", connections: 4 },
  ]);
});

Deno.test("and as iptables -v -S lists them", () => {
  const listing = `-N KUBE-SERVICES
-A KUBE-SERVICES -d fd00:10:96::a/128 -p sctp -m comment --comment "shop/web:http cluster IP" -m sctp --dport 80 -c 12 720 -j KUBE-SVL-AAAAAAAAAAAAAAAA
-A KUBE-NODEPORTS -p tcp -m comment --comment shop/web -m tcp --dport 30080 -c 5 300 -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES ! -d ::1/128 -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -c 3 4 -j KUBE-NODEPORTS
`;
  assertEquals([...countsIn(6, listing)], [
    { frontend: "IPv6 fd00:10:96::a . sctp . 80", service: "shop/web", connections: 12 },
    { frontend: "IPv6 tcp . 30080", service: "shop/web", connections: 5 },
  ]);
});
