import { assertEquals } from "@std/assert";
import { cleanup, cleanUpKernel } from "../../../../lib/backend/iptables/kernel/cleanup.ts";
import { renderFamily } from "../../../../lib/backend/iptables/script/rule.ts";
import { parseSaved } from "../../../../lib/backend/iptables/kernel/saved.ts";
import { FAMILIES } from "../../../../lib/model/values/address.ts";
import { Pipeline } from "../../../support/pipeline.ts";
import { Kernel, newDataplane, VARIANTS } from "../kernel.ts";
import { EXAMPLE } from "../example.ts";
import { atOnce } from "../../../../lib/model/ports/in_turns.ts";

/** Rules of a firewall, of kubelet and of a CNI, in the order in which `iptables-save` prints them. */
const FOREIGN = `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:FORWARD DROP [0:0]
:KUBE-FIREWALL - [0:0]
:EMPTY - [0:0]
:MINE - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -m comment --comment "kubernetes is mentioned here" -j MINE
-A FORWARD -i lo -j ACCEPT
-A MINE -j RETURN
COMMIT
*nat
:CNI-HOSTPORT-DNAT - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
COMMIT
`;

for (const variant of VARIANTS) {
  const everything = async (kernel: Kernel) =>
    await kernel.run("nft", "-s", "list", "ruleset") +
    await kernel.save(4) + await kernel.save(6);

  Deno.test(`cleanup leaves the rules of others as before, in iptables${variant}`, async () => {
    await using kernel = await Kernel.create(variant);
    for (const family of FAMILIES) await kernel.restore(family, FOREIGN);
    const before = await everything(kernel);
    await new Pipeline({ mode: "iptables" }).apply(newDataplane(kernel), EXAMPLE);

    const full = await everything(kernel);
    const planned = await cleanUpKernel(kernel.runner, { dryRun: true, kubeProxy: true });
    assertEquals(await everything(kernel), full);
    const removed = await cleanUpKernel(kernel.runner, { dryRun: false, kubeProxy: true });
    assertEquals(removed, planned);
    assertEquals(removed.map(({ program }) => program), [
      `iptables${variant}-restore`,
      `ip6tables${variant}-restore`,
    ]);

    assertEquals(await everything(kernel), before);
    assertEquals(before.includes("KUBE-S"), false);
    assertEquals(await cleanUpKernel(kernel.runner, { dryRun: false, kubeProxy: true }), []);
  });
}

Deno.test("chains of ours that others lead to are emptied and kept", () => {
  const saved = atOnce(parseSaved(`*nat
:PREROUTING ACCEPT [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
:MINE - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A MINE -j KUBE-MARK-MASQ
COMMIT
`));
  const { input, kept } = cleanup(saved, { family: 4, kubeProxy: true });
  assertEquals(kept, ["nat KUBE-MARK-MASQ"]);
  assertEquals(
    atOnce(renderFamily(input)),
    `*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-X KUBE-SERVICES
COMMIT
`,
  );
});

Deno.test("what kube-proxy's ipvs mode left is removed", () => {
  const saved = atOnce(parseSaved(`*filter
:INPUT ACCEPT [0:0]
:KUBE-IPVS-FILTER - [0:0]
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER
COMMIT
`));
  assertEquals(
    atOnce(renderFamily(cleanup(saved, { family: 4, kubeProxy: true }).input)),
    `*filter
:KUBE-IPVS-FILTER - [0:0]
-D INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER
-X KUBE-IPVS-FILTER
COMMIT
`,
  );
});

Deno.test("cleanup keeps the rules that kube-proxy's ipvs mode wrote over ours", () => {
  const saved = atOnce(parseSaved(`*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-IPVS-FILTER - [0:0]
-A INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-EXTERNAL-SERVICES -d 10.96.0.0/16 -m addrtype --dst-type LOCAL -j REJECT
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SEP-HAIRPIN - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
COMMIT
`));
  const { input, kept, left } = cleanup(saved, { family: 4, kubeProxy: false });
  assertEquals([kept, left], [[], []]);
  assertEquals(
    atOnce(renderFamily(input)),
    `*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
-D INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-X KUBE-EXTERNAL-SERVICES
COMMIT
*nat
:KUBE-NODEPORTS - [0:0]
:KUBE-SEP-HAIRPIN - [0:0]
:KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]
-X KUBE-NODEPORTS
-X KUBE-SEP-HAIRPIN
-X KUBE-SVC-ABCDEFGHIJKLMNOP
COMMIT
`,
  );
});
