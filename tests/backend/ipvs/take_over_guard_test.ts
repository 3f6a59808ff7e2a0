/** The guard with packets, on a node that has the interface and no IPVS. */
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { guardScript } from "../../../lib/backend/ipvs/take_over.ts";
import { IpvsKernel } from "../../../lib/backend/ipvs/kernel.ts";
import { FAMILIES } from "../../../lib/model/values/address.ts";
import { ADDRESSES } from "../../e2e/cluster.ts";
import { createCluster } from "../../e2e/case.ts";
import { execute } from "../../support/command.ts";
import type { Network } from "../../support/network.ts";
import { addAddress, NODE, WORLD } from "../../support/topology.ts";

const SSH = 22;
const HEALTH_CHECK = 31_234;

/** Writes the guard against the kernel's present state. */
async function guard(network: Network): Promise<void> {
  const run = (argv: readonly [string, ...string[]]) =>
    execute(["ip", "netns", "exec", network.namespaceOf(NODE), ...argv]);
  const state = await new IpvsKernel({ run }).look();
  if (!state) throw new Error("kube-ipvs0 is not seen");
  await network.applyNft(guardScript(state, "reject"));
}

/** Tries one connection from a pod, a client, and the node itself. */
async function outcomes(network: Network, address: string, port: number): Promise<string[]> {
  const all = await Promise.all(
    ["pod", "client", NODE].map((from) => network.connect({ from, address, port, timeout: 5_000 })),
  );
  return all.map(([outcome]) =>
    outcome?.type === "answer" ? outcome.answer.host : `${outcome?.type}`
  );
}

for (const family of FAMILIES) {
  Deno.test(`the guard refuses virtual IPs but for health checks (IPv${family})`, async () => {
    const { clusterIP, externalIP, node } = ADDRESSES[family];
    await using network = await createCluster();
    for (const port of [SSH, HEALTH_CHECK]) {
      network.serve(NODE, { protocol: "tcp", port, address: "::" });
    }
    await network.ip(NODE, [
      // The real one is of the type dummy, which not every kernel has.
      "link add kube-ipvs0 type bridge",
      ...[clusterIP, externalIP, node].map((address) => addAddress(address, "kube-ipvs0")),
    ]);
    await guard(network);
    const [answered, refused] = ["node", "reject"].map((each) => [each, each, each]);
    assertEquals(await outcomes(network, clusterIP, SSH), refused);
    assertEquals(await outcomes(network, externalIP, HEALTH_CHECK), answered);
    assertEquals(await outcomes(network, node, SSH), answered);

    // As VRRP moves one to this node, and away from it.
    await network.ip(NODE, [addAddress(externalIP, "client")]);
    await guard(network);
    assertEquals(await outcomes(network, externalIP, SSH), answered);
    await network.ip(NODE, [
      addAddress(externalIP, "client").replace(" add ", " del ").replace(" nodad", ""),
    ]);
    await guard(network);
    assertEquals(await outcomes(network, externalIP, SSH), refused);
  });

  Deno.test(`a connection that is open when kube-ipvs0 goes is reset (IPv${family})`, async () => {
    const { clusterIP } = ADDRESSES[family];
    await using network = await createCluster();
    network.serve(NODE, { protocol: "tcp", port: SSH, address: "::" });
    await network.ip(NODE, [
      "link add kube-ipvs0 type bridge",
      addAddress(clusterIP, "kube-ipvs0"),
    ]);
    // Here the node's own socket answers, in the place of IPVS: without its address it is not to.
    await network.run(NODE, ["sysctl", "-qw", "net.ipv4.tcp_early_demux=0"]);
    // Known to conntrack, as IPVS has it.
    await network.applyNft(
      "table inet track { chain input { type filter hook input priority 0; ct state new accept; }; }",
    );
    const connections = await Promise.all(
      ["pod", "client", NODE].map((from) => network.stay({ from, address: clusterIP, port: SSH })),
    );
    // As any other host, which knows nothing of it.
    const silence =
      "table inet silence { chain input { type filter hook prerouting priority -400; " +
      `tcp dport ${SSH} drop; }; }`;
    await network.run(WORLD, ["nft", "-f", "-"], { stdin: silence });
    await guard(network);
    for (const each of connections) assertEquals(await each.exchange("1"), "1");
    await network.ip(NODE, ["link delete kube-ipvs0"]);
    for (const each of connections) {
      const error = await assertRejects(() => each.exchange("2"), Error);
      assertMatch(error.message, /reset/i);
    }
  });
}
