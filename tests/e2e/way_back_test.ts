import { installKubeProxy } from "./kube_proxy.ts";
import { assertFlows, type Flow } from "./flow.ts";
import { ENDPOINTS } from "./hand_over_stage.ts";
import { ADDRESSES, type EndpointHost, service, slice } from "./cluster.ts";
import { Stage } from "./stage.ts";

const A = ADDRESSES[4];
/** Not among the endpoints that kube-proxy knows. */
const OLD = "local2";

function reaches(...hosts: readonly EndpointHost[]): Flow[] {
  return (["pod", "node"] as const).map((from) => ({
    from,
    to: A.clusterIP,
    reaches: hosts,
    masqueraded: from === "node",
  }));
}

for (const mode of ["nftables", "iptables"] as const) {
  Deno.test(`kube-proxy in ${mode} mode decides as soon as signpost has stopped`, async () => {
    const objects = [service(A), slice(A, [OLD])];
    await using stage = await Stage.create({ objects, config: { mode: "nftables" } });
    {
      await using signpost = await stage.startSynced();
      await stage.flowsBecome(signpost, reaches(OLD));
    }
    await assertFlows(stage.network, reaches(OLD));
    await installKubeProxy(stage.network, { mode });
    // A UDP flow from a source port that was used before would keep its endpoint.
    await stage.network.flushConntrack();
    await assertFlows(stage.network, reaches(...ENDPOINTS));

    await using signpost = await stage.startSynced();
    await stage.flowsBecome(signpost, reaches(OLD));
  });
}
