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
