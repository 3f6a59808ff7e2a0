/**
 * Rejects and counts node ports on loopback that no listener serves.
 *
 * @module
 */
import type { DesiredNode, DesiredServicePort } from "../../../model/kernel/desired.ts";
import type { Protocol } from "../../../model/cluster/objects.ts";
import type { Family } from "../../../model/values/address.ts";
import { base, LOOPBACK, NODE_PORT } from "./layout.ts";
import { element, type TableObject } from "./objects.ts";
import { NFT_FAMILY, tableSet } from "./sets.ts";

/** Returns the objects that reject a node port on loopback; none if a listener serves it. */
export function localhostObjects(port: DesiredServicePort, node: DesiredNode): TableObject[] {
  const { name: comment, family, protocol, nodePort } = port;
  const { loopback } = node.families[family];
  const isServed = loopback === "listeners" && protocol === "tcp";
  if (nodePort === 0 || loopback === undefined || isServed) return [];
  const name = localhostRejectChain(family, protocol);
  return [
    ...sharedObjects(node),
    { type: "chain", role: "frontend", name, rules: ["counter reject"] },
    element(
      tableSet("localhostRejects", { family }),
      { type: "frontend", address: undefined, protocol, port: nodePort },
      { data: `goto ${name}`, comment },
    ),
  ];
}

function sharedObjects(node: DesiredNode): TableObject[] {
  const families = node.ipFamilies.filter((family) => node.families[family].loopback);
  const maps = families.map((family) => tableSet("localhostRejects", { family }));
  const rules = families.map((family, i) =>
    `${NFT_FAMILY[family]} daddr ${LOOPBACK[family]} ct state new ${NODE_PORT} vmap @${
      maps[i]?.name
    }`
  );
  return [...maps, base("filter-input-localhost", "filter hook input priority 0", rules)];
}

/** Returns the name of the chain that counts what it rejects. */
export function localhostRejectChain(family: Family, protocol: Protocol): string {
  return `reject-localhost${family}-${protocol}`;
}
