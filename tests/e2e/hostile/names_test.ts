/**
 * Names, labels and zones that no one means well: they reach no rule and no terminal, and the Services beside
 * them work.
 */
import { testCaseInBothModes } from "../case.ts";
import { type Addresses, type Manifest, service, slice } from "../cluster.ts";

/** Text that would end a line, a quote or a rule, and move a terminal's cursor. */
const EVIL = 'x"; } \ndelete table inet signpost\n-j ACCEPT \x1b[2J\u202e';

/** Returns well-meant objects, which must keep working. */
function web(a: Addresses): Manifest[] {
  return [service(a), slice(a, ["local1"])];
}

const WORKS = (
  a: Addresses,
) => [{ from: "pod" as const, to: a.clusterIP, reaches: ["local1" as const] }];

testCaseInBothModes("a Service with a hostile name is refused by itself", (a) => ({
  objects: [service(a, { name: EVIL, spec: { clusterIP: a.clusterIP2 } }), ...web(a)],
  flows: WORKS(a),
  warns: /object refused.*metadata\.name/,
}));

testCaseInBothModes("a hostile name of a port harms no other Service", (a) => ({
  objects: [
    service(a, {
      name: "evil",
      spec: { clusterIP: a.clusterIP2, ports: [{ name: EVIL, protocol: "TCP", port: 80 }] },
    }),
    ...web(a),
  ],
  flows: WORKS(a),
  warns: /shop\/evil.*spec\.ports must hold at least one usable port/,
}));

testCaseInBothModes("hostile labels, annotations and zones reach no rule", (a) => {
  const hostile = { "topology.kubernetes.io/zone": EVIL, [EVIL]: EVIL };
  const [good = {}, endpoints = {}] = web(a);
  const metadata = (object: Manifest) => object["metadata"] as Manifest;
  const labels = { ...metadata(endpoints)["labels"] as Manifest, ...hostile };
  return {
    objects: [
      { ...good, metadata: { ...metadata(good), labels: hostile, annotations: hostile } },
      {
        ...endpoints,
        metadata: { ...metadata(endpoints), labels, annotations: hostile },
        endpoints: (endpoints["endpoints"] as Manifest[]).map((each) => ({
          ...each,
          zone: EVIL,
          hints: { forZones: [{ name: EVIL }], forNodes: [{ name: EVIL }] },
        })),
      },
    ],
    flows: WORKS(a),
  };
});
