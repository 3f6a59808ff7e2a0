/** The cases of kube-proxy's `CategorizeEndpoints`, and its rules as a property. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { casesOf } from "../support/table.ts";
import type { Endpoint } from "../../lib/model/cluster/objects.ts";
import { type Candidate, chooseEndpoints, type Need } from "../../lib/policy/endpoints.ts";

const PLACE = { nodeName: "here", zone: "zone-a" };
const CLUSTER: Need = { cluster: true, local: false };
const LOCAL: Need = { cluster: false, local: true };
const BOTH: Need = { cluster: true, local: true };

type State = keyof typeof CONDITIONS;

/** How a test writes an endpoint. */
interface Sketch {
  readonly on?: string;
  readonly state?: State;
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

/**
 * Cases: the need and the node's zone if it is not zone-a; endpoints with their state, zone hints and
 * node hints (`for:`); the numbers of those chosen.
 */
const CASES = casesOf(`
no endpoints => both:  => no endpoints
under the Cluster policy all ready endpoints are used, wherever they are => Cluster: here, away, away unready, away terminating => cluster 1 2, local none
an endpoint that is ready while it terminates counts as ready => both: here ready-and-terminating, away terminating => cluster 1, local 1
without a ready endpoint those that serve while they terminate are used => Cluster: away terminating, here terminating, away gone => cluster 1 2, local none
endpoints that neither are ready nor serve are never used => both: away unready, here gone => no endpoints
under the Local policy only endpoints of this node are used => Local: here, away, here => cluster none, local 1 3
endpoints elsewhere alone are known of, so that Local drops and does not reject => Local: away, away => cluster none, local none
terminating endpoints elsewhere alone are known of too => Local: away terminating => cluster none, local none
endpoints elsewhere that cannot serve are as none => Local: away unready, away gone => no endpoints
the local set falls back to terminating ones while the cluster set has ready ones => both: here terminating, away => cluster 2, local 1
the local set has ready ones: its terminating ones are not used => both: here terminating, here, away terminating => cluster 2, local 2
both sets fall back where none is ready anywhere => both: here terminating, away terminating => cluster 1 2, local 1
an endpoint of an unknown node is not local => both: nowhere => cluster 1, local none
hints for this zone leave the endpoints of other zones out => Cluster: here zone-a, here zone-b, away zone-c, away zone-a => cluster 1 4, local none
the Local policy does not look at hints => both: here zone-a, here zone-b, away zone-c, away zone-a => cluster 1 4, local 1 2
one ready endpoint without a hint: all hints are ignored => Cluster: here zone-a, here zone-b, away zone-c, away zone-a, away => cluster 1 2 3 4 5, local none
an endpoint without a hint that is not ready changes nothing => Cluster: here zone-a, here zone-b, away zone-c, away zone-a, away unready, away terminating => cluster 1 4, local none
no ready endpoint is hinted for this zone: all hints are ignored => Cluster in zone-d: here zone-a, here zone-b, away zone-c, away zone-a => cluster 1 2 3 4, local none
only endpoints that are not ready are hinted for this zone: all hints are ignored => Cluster: away unready zone-a, away zone-b, away zone-c, away terminating zone-a => cluster 2 3, local none
a node whose zone is not known ignores zone hints => Cluster in ?: here zone-a, here zone-b, away zone-c, away zone-a => cluster 1 2 3 4, local none
an endpoint may be hinted for several zones => Cluster: away zone-c zone-a, away zone-b zone-c, away zone-a => cluster 1 3, local none
where none is ready, the terminating ones of all zones are used => Cluster: away terminating zone-a, away terminating zone-b => cluster 1 2, local none
hints for this node leave the endpoints of other nodes out => Cluster: away for:here, away for:elsewhere, away for:elsewhere for:here => cluster 1 3, local none
hints for this node come before hints for its zone => Cluster: away zone-b for:here, away zone-a for:elsewhere => cluster 1, local none
no endpoint is hinted for this node: the hints for its zone are used => Cluster: away zone-b for:elsewhere, away zone-a for:elsewhere => cluster 2, local none
one ready endpoint without a node hint: the hints for the zone are used => Cluster: away zone-b for:here, away zone-a => cluster 2, local none
hints for neither this node nor its zone: all endpoints are used => Cluster: away zone-b for:elsewhere, away zone-c for:elsewhere => cluster 1 2, local none
where none is ready, the terminating ones of all nodes are used => Cluster: away terminating for:here, away terminating for:elsewhere => cluster 1 2, local none
`);

function sketchOf(text: string): Sketch {
  const [place, ...words] = text.split(" ");
  const is = (word: string): word is State => word in CONDITIONS;
  return {
    on: place === "away" ? "elsewhere" : place === "here" ? "here" : "",
    state: words.find(is) ?? "ready",
    zones: words.filter((word) => word.startsWith("zone-")),
    nodes: words.flatMap((word) => word.startsWith("for:") ? [word.slice(4)] : []),
  };
}

for (const [name, input, expected] of CASES) {
  Deno.test(`choice of endpoints: ${name}`, () => {
    const [, policy = "", zone = PLACE.zone, list = ""] =
      /^(\w+)(?: in (\S+))?: ?(.*)$/.exec(input) ?? [];
    const need = { Cluster: CLUSTER, Local: LOCAL }[policy] ?? BOTH;
    const sketches = list === "" ? [] : list.split(", ").map(sketchOf);
    const { cluster, local, any } = choose(sketches, need, {
      ...PLACE,
      zone: zone === "?" ? "" : zone,
    });
    const numbers = (chosen: readonly number[]) => chosen.join(" ") || "none";
    const said = `cluster ${numbers(cluster)}, local ${numbers(local)}`;
    assertEquals(any ? said : "no endpoints", expected);
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
