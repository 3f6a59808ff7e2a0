import { casesOf } from "../support/table.ts";
import { assertEquals } from "@std/assert";
import { readExplainTarget } from "../../lib/config/command.ts";
import { findTarget } from "../../lib/explain/lookup.ts";
import { FatalError } from "../../lib/model/values/errors.ts";
import { knownOf, loadBalancer, LOCAL, NODE_ADDRESS, slice, web, worldOf } from "./cluster.ts";

const DNS = web({
  clusterIP: "10.96.0.53",
  externalIPs: ["198.51.100.1"],
  ports: [{ name: "dns", port: 53, protocol: "UDP" }, { name: "dns-tcp", port: 53 }],
}, { metadata: { namespace: "kube-system", name: "dns" } });
const OTHER = web({
  clusterIP: "10.96.0.54",
  externalIPs: ["198.51.100.1"],
  ports: [{ port: 8080 }],
}, { metadata: { namespace: "shop", name: "other" } });
const KNOWN = knownOf(worldOf([loadBalancer(), slice([LOCAL]), DNS, OTHER]));

/** Returns what a question means, in the words of the command line, or why it means nothing. */
function found(question: string): string {
  const asked = readExplainTarget([question], { namespace: "", from: "" });
  if (typeof asked === "string") return asked;
  try {
    const target = findTarget(asked, KNOWN);
    if (target.type === "packet") {
      const { source = "", address, port, protocol } = target;
      return `${source} to ${address}:${port}/${protocol}`;
    }
    return `${target.namespace}/${target.name} ${target.port ?? "all ports"}`;
  } catch (error) {
    if (error instanceof FatalError) return error.message;
    throw error;
  }
}

/** Questions, and what they mean. */
const QUESTIONS = casesOf(`
10.96.0.10 => shop/web all ports
192.0.2.10 => shop/web all ports
10.96.0.10:80 => shop/web http
10.96.0.54:8080 => shop/other 8080
10.96.0.53:53/udp => kube-system/dns dns
${NODE_ADDRESS}:30080 => shop/web http
web.shop.svc.cluster.local:80 => shop/web 80
10.244.0.9 to web:80 => 10.244.0.9 to 10.96.0.10:80/tcp
10.244.0.9 to web => 10.244.0.9 to 10.96.0.10:80/tcp
10.244.0.9 to dns.kube-system.svc:53/udp => 10.244.0.9 to 10.96.0.53:53/udp
-> kube-system/dns:dns-tcp =>  to 10.96.0.53:53/tcp
10.96.0.99 => no Service has the address 10.96.0.99 on this node
${NODE_ADDRESS} => no Service has the address ${NODE_ADDRESS} on this node: it is an address of this node; add the node port, as IP:PORT
10.96.0.10:81 => no Service has 10.96.0.10:81/tcp on this node: 10.96.0.10 is an address of shop/web
${NODE_ADDRESS}:30081 => no Service has ${NODE_ADDRESS}:30081/tcp on this node
198.51.100.1 => 198.51.100.1 is an address of several Services: name one of kube-system/dns, shop/other
10.244.0.9 to dns:53 => Service kube-system/dns has several ports: name one of kube-system/dns:53/udp, kube-system/dns:53/tcp
fd00::9 to web:80 => shop/web:80 has no cluster IP of the IP family of fd00::9
10.244.0.9 to shop/wbe:80 => no Service shop/wbe:80 has a cluster IP in the rules of this node. Did you mean shop/web?
`);

for (const [question, meaning] of QUESTIONS) {
  Deno.test(`explain ${question} means: ${meaning}`, () => {
    assertEquals(found(question), meaning);
  });
}
