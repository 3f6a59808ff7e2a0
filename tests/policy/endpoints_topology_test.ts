/**
 * The cases of kube-proxy's `CategorizeEndpoints`, and its rules as a property.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import type { Endpoint } from "../../lib/model/cluster/objects.ts";
import { type Candidate, chooseEndpoints, type Need } from "../../lib/policy/endpoints.ts";

const PLACE = { nodeName: "here", zone: "zone-a" };
const CLUSTER: Need = { cluster: true, local: false };
const LOCAL: Need = { cluster: false, local: true };
const BOTH: Need = { cluster: true, local: true };

/** How a test writes an endpoint. */
interface Sketch {
  readonly on?: string;
  readonly state?: "ready" | "terminating" | "unready" | "gone" | "ready-and-terminating";
  readonly zones?: readonly string[];
  readonly nodes?: readonly string[];
}

const CONDITIONS = {
  ready: { ready: true, serving: true, terminating: false },
  "ready-and-terminating": { ready: true, serving: true, terminating: true },
  terminating: { ready: false, serving: true, terminating: true },
  unready: { ready: false, serving: false, terminating: false },
  gone: { ready: false, serving: false, terminating: true },
};

/** Candidates named `10.0.0.1`, `10.0.0.2` and so on. */
function candidates(sketches: readonly Sketch[]): Candidate[] {
  return sketches.map(({ on = "elsewhere", state = "ready", zones = [], nodes = [] }, i) => {
    const endpoint: Endpoint = {
      address: `10.0.0.${i + 1}`,
      nodeName: on,
      ...CONDITIONS[state],
      zoneHints: zones,
      nodeHints: nodes,
    };
    return { endpoint, port: 80 };
  });
}

/** The numbers of the chosen candidates, and whether there are any anywhere. */
function choose(sketches: readonly Sketch[], need: Need, place = PLACE) {
  const chosen = chooseEndpoints(candidates(sketches), { need, place });
  const numbers = (list: readonly Candidate[]) =>
    list.map(({ endpoint }) => Number(endpoint.address.split(".")[3]));
  return {
    cluster: numbers(chosen.cluster),
    local: numbers(chosen.local),
    any: chosen.hasEndpoints,
  };
}

interface Case {
  readonly name: string;
  readonly need: Need;
  readonly endpoints: readonly Sketch[];
  readonly zone?: string;
  readonly cluster?: readonly number[];
  readonly local?: readonly number[];
  /** True if the service has endpoints; by default where some were chosen. */
  readonly any?: boolean;
}

const THREE_ZONES: readonly Sketch[] = [
  { zones: ["zone-a"], on: "here" },
  { zones: ["zone-b"], on: "here" },
  { zones: ["zone-c"] },
  { zones: ["zone-a"] },
];

const CASES: readonly Case[] = [
  { name: "no endpoints", need: BOTH, endpoints: [] },

  // Readiness and termination.
  {
    name: "under the Cluster policy all ready endpoints are used, wherever they are",
    need: CLUSTER,
    endpoints: [{ on: "here" }, {}, { state: "unready" }, { state: "terminating" }],
    cluster: [1, 2],
  },
  {
    name: "an endpoint that is ready while it terminates counts as ready",
    need: BOTH,
    endpoints: [{ on: "here", state: "ready-and-terminating" }, { state: "terminating" }],
    cluster: [1],
    local: [1],
  },
  {
    name: "without a ready endpoint those that serve while they terminate are used",
    need: CLUSTER,
    endpoints: [{ state: "terminating" }, { on: "here", state: "terminating" }, { state: "gone" }],
    cluster: [1, 2],
  },
  {
    name: "endpoints that neither are ready nor serve are never used",
    need: BOTH,
    endpoints: [{ state: "unready" }, { on: "here", state: "gone" }],
  },
  {
    name: "under the Local policy only endpoints of this node are used",
    need: LOCAL,
    endpoints: [{ on: "here" }, {}, { on: "here" }],
    local: [1, 3],
  },
  {
    name: "endpoints elsewhere alone are known of, so that Local drops and does not reject",
    need: LOCAL,
    endpoints: [{}, {}],
    any: true,
  },
  {
    name: "terminating endpoints elsewhere alone are known of too",
    need: LOCAL,
    endpoints: [{ state: "terminating" }],
    any: true,
  },
  {
    name: "endpoints elsewhere that cannot serve are as none",
    need: LOCAL,
    endpoints: [{ state: "unready" }, { state: "gone" }],
    any: false,
  },
  {
    name: "the local set falls back to terminating ones while the cluster set has ready ones",
    need: BOTH,
    endpoints: [{ on: "here", state: "terminating" }, {}],
    cluster: [2],
    local: [1],
  },
  {
    name: "the local set has ready ones: its terminating ones are not used",
    need: BOTH,
    endpoints: [{ on: "here", state: "terminating" }, { on: "here" }, { state: "terminating" }],
    cluster: [2],
    local: [2],
  },
  {
    name: "both sets fall back where none is ready anywhere",
    need: BOTH,
    endpoints: [{ on: "here", state: "terminating" }, { state: "terminating" }],
    cluster: [1, 2],
    local: [1],
  },
  {
    name: "an endpoint of an unknown node is not local",
    need: BOTH,
    endpoints: [{ on: "" }],
    cluster: [1],
    local: [],
  },

  // Zone hints.
  {
    name: "hints for this zone leave the endpoints of other zones out",
    need: CLUSTER,
    endpoints: THREE_ZONES,
    cluster: [1, 4],
  },
  {
    name: "the Local policy does not look at hints",
    need: BOTH,
    endpoints: THREE_ZONES,
    cluster: [1, 4],
    local: [1, 2],
  },
  {
    name: "one ready endpoint without a hint: all hints are ignored",
    need: CLUSTER,
    endpoints: [...THREE_ZONES, {}],
    cluster: [1, 2, 3, 4, 5],
  },
  {
    name: "an endpoint without a hint that is not ready changes nothing",
    need: CLUSTER,
    endpoints: [...THREE_ZONES, { state: "unready" }, { state: "terminating" }],
    cluster: [1, 4],
  },
  {
    name: "no ready endpoint is hinted for this zone: all hints are ignored",
    need: CLUSTER,
    endpoints: THREE_ZONES,
    zone: "zone-d",
    cluster: [1, 2, 3, 4],
  },
  {
    name: "only endpoints that are not ready are hinted for this zone: all hints are ignored",
    need: CLUSTER,
    endpoints: [
      { zones: ["zone-a"], state: "unready" },
      { zones: ["zone-b"] },
      { zones: ["zone-c"] },
      { zones: ["zone-a"], state: "terminating" },
    ],
    cluster: [2, 3],
  },
  {
    name: "a node whose zone is not known ignores zone hints",
    need: CLUSTER,
    endpoints: THREE_ZONES,
    zone: "",
    cluster: [1, 2, 3, 4],
  },
  {
    name: "an endpoint may be hinted for several zones",
    need: CLUSTER,
    endpoints: [
      { zones: ["zone-c", "zone-a"] },
      { zones: ["zone-b", "zone-c"] },
      { zones: ["zone-a"] },
    ],
    cluster: [1, 3],
  },
  {
    name: "where none is ready, the terminating ones of all zones are used",
    need: CLUSTER,
    endpoints: [
      { zones: ["zone-a"], state: "terminating" },
      { zones: ["zone-b"], state: "terminating" },
    ],
    cluster: [1, 2],
  },

  // Node hints.
  {
    name: "hints for this node leave the endpoints of other nodes out",
    need: CLUSTER,
    endpoints: [{ nodes: ["here"] }, { nodes: ["elsewhere"] }, { nodes: ["elsewhere", "here"] }],
    cluster: [1, 3],
  },
  {
    name: "hints for this node come before hints for its zone",
    need: CLUSTER,
    endpoints: [
      { nodes: ["here"], zones: ["zone-b"] },
      { nodes: ["elsewhere"], zones: ["zone-a"] },
    ],
    cluster: [1],
  },
  {
    name: "no endpoint is hinted for this node: the hints for its zone are used",
    need: CLUSTER,
    endpoints: [
      { nodes: ["elsewhere"], zones: ["zone-b"] },
      { nodes: ["elsewhere"], zones: ["zone-a"] },
    ],
    cluster: [2],
  },
  {
    name: "one ready endpoint without a node hint: the hints for the zone are used",
    need: CLUSTER,
    endpoints: [{ nodes: ["here"], zones: ["zone-b"] }, { zones: ["zone-a"] }],
    cluster: [2],
  },
  {
    name: "hints for neither this node nor its zone: all endpoints are used",
    need: CLUSTER,
    endpoints: [
      { nodes: ["elsewhere"], zones: ["zone-b"] },
      { nodes: ["elsewhere"], zones: ["zone-c"] },
    ],
    cluster: [1, 2],
  },
  {
    name: "where none is ready, the terminating ones of all nodes are used",
    need: CLUSTER,
    endpoints: [
      { nodes: ["here"], state: "terminating" },
      { nodes: ["elsewhere"], state: "terminating" },
    ],
    cluster: [1, 2],
  },
];

for (const { name, need, endpoints, zone = PLACE.zone, ...expected } of CASES) {
  Deno.test(`choice of endpoints: ${name}`, () => {
    const { cluster = [], local = [], any = cluster.length + local.length > 0 } = expected;
    assertEquals(choose(endpoints, need, { ...PLACE, zone }), { cluster, local, any });
  });
}

const sketch: fc.Arbitrary<Sketch> = fc.record({
  on: fc.constantFrom("here", "elsewhere", ""),
  state: fc.constantFrom("ready", "terminating", "unready", "gone", "ready-and-terminating"),
  zones: fc.subarray(["zone-a", "zone-b"]),
  nodes: fc.subarray(["here", "elsewhere"]),
});

Deno.test("traffic has somewhere to go wherever some endpoint can take it", () => {
  const need = fc.constantFrom(CLUSTER, LOCAL, BOTH);
  fc.assert(fc.property(fc.array(sketch, { maxLength: 6 }), need, (sketches, need) => {
    const { cluster, local, any } = choose(sketches, need);
    const usable = sketches.filter(({ state }) => state !== "unready" && state !== "gone");
    assertEquals(any, usable.length > 0);
    assertEquals(cluster.length > 0, need.cluster && usable.length > 0);
    assertEquals(local.length > 0, need.local && usable.some(({ on }) => on === "here"));
    for (const list of [cluster, local]) {
      const ready = new Set(list.map((number) => sketches[number - 1]?.state?.startsWith("ready")));
      assertEquals(ready.size <= 1, true, "ready ones and others in one list");
    }
  }));
});
