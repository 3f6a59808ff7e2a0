/**
 * `signpost cleanup --kube-proxy` and `kube-proxy --cleanup`, each on a copy of the same state.
 *
 * @module
 */
import type { Family } from "../../../lib/model/values/address.ts";
import { createCluster } from "../../../tests/e2e/case.ts";
import { CommandError } from "../../../tests/support/command.ts";
import type { Network } from "../../../tests/support/network.ts";
import { runSignpost } from "../../../tests/support/signpost.ts";
import { NODE } from "../../../tests/support/topology.ts";
import type { Backend } from "../steps.ts";
import type { Findings } from "./findings.ts";
import { RealKubeProxy } from "./real_kube_proxy.ts";
import { type Recording, replay } from "./recording.ts";
import { RESTORE } from "./stage.ts";

/** All that either of them may remove, a line for each thing. */
const LEFT = `ip -o addr | sed 's/^[0-9]*: *//; s/@if[0-9]*//; s/ *valid_lft.*//' | grep -v fe80:
ipvsadm -Sn
ipset list -n
for save in iptables-nft-save ip6tables-nft-save iptables-legacy-save ip6tables-legacy-save; do
  $save 2>/dev/null | grep -v '^#' | sed 's/ \\[[0-9:]*\\]//; s/^/'$save' /'
done
nft -s list ruleset 2>/dev/null
sysctl -e net.ipv4.vs net.ipv4.ip_forward net.ipv4.conf.all net.netfilter | grep -v conntrack_count
true`;

/** The clean-ups to compare. */
export interface CleanupsOptions {
  readonly backend: Backend;
  readonly families: readonly Family[];
  readonly kubeProxy: string;
  readonly recording: Recording;
}

/** Tells what either of them leaves that the other removes. */
export async function compareCleanups(
  options: CleanupsOptions,
  findings: Findings,
): Promise<void> {
  const { backend, families, kubeProxy: program, recording } = options;
  const leftBy = async (clean: (network: Network) => Promise<void>) => {
    await using network = await createCluster();
    await replay(network, recording, { families, restore: RESTORE[backend] });
    await clean(network);
    return new Set((await network.run(NODE, ["sh", "-c", LEFT])).split("\n"));
  };
  const bySignpost = await leftBy(async (network) => {
    const result = await runSignpost(network, ["cleanup", "--kube-proxy"]);
    if (result.code !== 0) throw new CommandError(["signpost", "cleanup"], result);
  });
  const byKubeProxy = await leftBy(async (network) => {
    const variant = backend === "iptables-legacy" ? "legacy" : "nft";
    await using kubeProxy = await RealKubeProxy.create(network, { program, variant, objects: [] });
    const { code, stderr } = await kubeProxy.cleanUp();
    const errors = stderr.split("\n").filter((line) => /^E\d/.test(line));
    if (code !== 0) findings.fact(`kube-proxy --cleanup: exit ${code}: ${errors.join("; ")}`);
  });
  const only = (lines: ReadonlySet<string>) => lines.size === 0 ? "nothing" : [...lines].join("; ");
  const more = bySignpost.difference(byKubeProxy);
  findings.fact(
    `signpost cleanup --kube-proxy leaves and kube-proxy --cleanup removes: ${only(more)}`,
    `kube-proxy --cleanup leaves and signpost cleanup --kube-proxy removes: ${
      only(byKubeProxy.difference(bySignpost))
    }`,
  );
  if (more.size > 0) findings.problem(`signpost cleanup --kube-proxy leaves ${only(more)}`);
}
