/**
 * Checks that this machine is the one that the Node describes.
 *
 * @module
 */
import { lacksNodeAddress } from "../policy/node.ts";
import type { NodeFacts } from "./facts.ts";
import { type Finding, finding } from "./finding.ts";

/** Compares the Node with its name and with the addresses of the interfaces. */
export function checkNodeAddress(facts: NodeFacts): Finding[] {
  const { objects, nodeName, configuration, interfaceAddresses } = facts;
  if (!objects) return [];
  const { node } = objects;
  const where = `Node ${nodeName}`;
  if (lacksNodeAddress({ ...facts, node })) {
    const what =
      `no address of this node is known (${where}), so node ports answer on all its addresses`;
    return [finding("node-address-unknown", { what, where })];
  }
  if (node === undefined) {
    // Manifests may do without a Node.
    if (configuration.signpost.manifests.length > 0) return [];
    return [finding("node-unknown", { what: `there is no ${where}`, where })];
  }
  const own = new Set(interfaceAddresses);
  if (node.addresses.length === 0 || node.addresses.some((each) => own.has(each))) return [];
  const what = `${where} has ${node.addresses.join(", ")}; no interface here has ${
    node.addresses.length === 1 ? "it" : "any of them"
  }`;
  return [finding("node-address-elsewhere", { what, where })];
}
