/** Compares the mode with kube-proxy's default, iptables, and with the modes that work on this node. */
import type { Configuration } from "../config/configuration.ts";
import { isLoopbackRange, nodePortRanges } from "../model/configuration.ts";
import { cidrContains } from "../model/values/address.ts";
import type { NodeFacts } from "./facts.ts";
import type { Finding } from "../model/status.ts";
import { finding } from "./catalog.ts";

/** Compares the mode in effect with the mode that is set. */
export function* checkMode({ configuration, traits, system }: NodeFacts): Generator<Finding> {
  const where = "mode";
  if (system?.couldUseNftables) {
    const what = `mode ${configuration.mode} is set, and nftables works on this node`;
    return yield finding("mode-without-need", { what, where });
  }
  // A mode whose node ports answer on the Node's own addresses alone is not kube-proxy's default.
  const what = traits.primaryNodePorts ? describeOpenMode(configuration) : undefined;
  if (what !== undefined) yield finding("mode-is-open", { what, where });
}

/** Finds a mode without a fast path. If nft or the kernel refuses it, the probe has the finding. */
export function* checkAcceleration({ configuration, traits }: NodeFacts): Generator<Finding> {
  const reason = traits.refuses.get("acceleration");
  if (reason === undefined || configuration.signpost.acceleration.interfaces.length === 0) return;
  const what = `long connections do not take the fast path in ${traits.name} mode: ${reason}`;
  yield finding("acceleration-unavailable", { what, where: "mode" });
}

const LOCALHOST = "127.0.0.1";

/** Names the differences because nftables was chosen; `undefined`: a mode is set, or nothing differs. */
function describeOpenMode(configuration: Configuration): string | undefined {
  if (configuration.mode !== "") return undefined;
  const nodePorts = describeNodePorts(configuration);
  const differences = [
    ...(nodePorts === undefined ? [] : [nodePorts]),
    ...(configuration.conntrack.tcpBeLiberal ? [] : [INVALID]),
  ];
  if (differences.length === 0) return undefined;
  return "no mode is set, and nftables is used where kube-proxy uses iptables: " +
    differences.join("; ");
}

const INVALID = "a TCP segment outside the window may reset its connection, and is not dropped";

function describeNodePorts(
  { nodePortAddresses, iptables }: Configuration,
): string | undefined {
  const begin = "node ports";
  if (nodePortAddresses.length === 0) {
    return `${begin} answer on the Node's primary addresses only, never on ${LOCALHOST}`;
  }
  const ranges = nodePortRanges(nodePortAddresses).filter((cidr) => cidrContains(cidr, LOCALHOST));
  if (!iptables.localhostNodePorts || ranges.length === 0) return undefined;
  return ranges.some(isLoopbackRange)
    ? `${begin} answer on ${LOCALHOST} for TCP alone`
    : `${begin} never answer on ${LOCALHOST}`;
}
