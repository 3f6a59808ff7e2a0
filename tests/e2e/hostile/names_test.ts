/**
 * Names, labels, zones, addresses and ports that no one means well: they reach no rule and no terminal,
 * and the Services beside them work.
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

/** Something else in a Service that has cluster IP `clusterIP2`. */
function evil(a: Addresses, spec: Manifest, more: Parameters<typeof service>[1] = {}): Manifest {
  return service(a, { name: "evil", spec: { clusterIP: a.clusterIP2, ...spec }, ...more });
}

testCaseInBothModes("a Service with a hostile name is refused by itself", (a) => ({
  objects: [service(a, { name: EVIL, spec: { clusterIP: a.clusterIP2 } }), ...web(a)],
  flows: WORKS(a),
  warns: /object refused.*metadata\.name/,
}));

testCaseInBothModes("a hostile name of a port harms no other Service", (a) => ({
  objects: [evil(a, { ports: [{ name: EVIL, protocol: "TCP", port: 80 }] }), ...web(a)],
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

testCaseInBothModes(
  "special addresses take no traffic",
  (a) => ({
    objects: [
      evil(a, {
        externalIPs: [
          a.loopback,
          a.family === 4 ? "169.254.169.254" : "fe80::1",
          EVIL,
          a.externalIP,
        ],
      }),
      slice(a, ["local2"], { service: "evil" }),
      ...web(a),
    ],
    flows: [...WORKS(a), { from: "pod", to: a.externalIP, reaches: ["local2"], masqueraded: true }],
    warns: /shop\/evil.*spec\.externalIPs\[0\]/,
  }),
);

testCaseInBothModes("invalid ports are left out", (a) => ({
  objects: [
    evil(a, {
      ports: [0, 65536, -1, 80].map((port) => ({
        name: `p${Math.abs(port)}`,
        protocol: "TCP",
        port,
      })),
    }),
    slice(a, ["local2"], {
      service: "evil",
      ports: [{ name: "p80", protocol: "TCP", port: 8080 }],
    }),
    ...web(a),
  ],
  flows: [...WORKS(a), { from: "pod", to: a.clusterIP2, reaches: ["local2"], protocols: ["tcp"] }],
  warns: /shop\/evil.*spec\.ports/,
}));
