import { assertEquals, assertStringIncludes } from "@std/assert";
import { FLOWS, OBJECTS } from "../../../tools/neighbours/cluster.ts";
import {
  PAGE,
  record,
  renderPage,
  renderTable,
  type Result,
  RESULTS,
  silentLosses,
} from "../../../tools/neighbours/table.ts";

const PASSED = { passed: 40, total: 40, failures: [], findings: [] };
const FINDING =
  "warning chain FORWARD of table ip filter drops connections [firewall-drops-services]";

function result(changes: Partial<Result> = {}): Result {
  return {
    name: "docker",
    root: "debian12",
    proxy: "signpost",
    mode: "nftables",
    version: "Docker version 20.10.24+dfsg1, build 5d6db84",
    seconds: 60,
    stages: [{ ...PASSED, name: "alone" }],
    ...changes,
  };
}

function afterStart(failures: readonly string[], findings: readonly string[]): Result {
  const passed = 40 - failures.length;
  const stage = { name: "after: started", passed, total: 40, failures, findings };
  return result({ stages: [...result().stages, stage] });
}

Deno.test("a run fails if a flow dies beside a neighbour and check reports nothing", () => {
  assertEquals(silentLosses(afterStart(["pod1: UDP: drop"], [])), [
    "docker, signpost in nftables mode, after: started: check reports nothing: pod1: UDP: drop",
  ]);
  assertEquals(silentLosses(afterStart(["pod1: UDP: drop"], [FINDING])), []);
  assertEquals(silentLosses(afterStart(["pod1: control: outside: drop"], [])), []);
  assertEquals(silentLosses(result({ note: "no network" })), [
    "docker, signpost in nftables mode: ended early: no network",
  ]);
});

const OF = { date: "2026-11-27", commit: "043b632" };

Deno.test("the table of neighbours has the fewest flows that passed, and the findings", () => {
  const lossy = afterStart(["pod1: UDP: drop"], [FINDING]);
  const results = [
    result(),
    { ...lossy, mode: "iptables" as const },
    result({ mode: "iptables", proxy: "kube-proxy" }),
    result({ name: "bird", version: "BIRD version 2.0.12" }),
    result({ name: "lxd", version: "5.0.2", root: "sid" }),
  ];
  assertEquals(
    renderTable(results.map((each) => record(each, OF))),
    `| Program | nftables | iptables | Findings |
|---|---|---|---|
| docker 20.10.24 | 40 of 40 | 39 of 40 (kube-proxy: 40) | \`firewall-drops-services\` |
| bird 2.0.12, lxd 5.0.2 (sid) | 40 of 40 |  |  |
`,
  );
});

Deno.test("the table says that a stage took a second try", () => {
  const own = afterStart(["node: UDP: drop"], [FINDING]);
  const [alone, stage] = own.stages;
  const first = ["pod1: UDP: drop", "node: UDP: drop"];
  const stages = alone && stage ? [alone, { ...stage, first }] : [];
  const recorded = record({ ...own, stages }, OF);
  assertEquals(recorded.firstTries, { "after: started": 38 });
  assertEquals(recorded.lost, { "node: UDP": "after: started", "pod1: UDP": "after: started" });
  const peer = record(result({ proxy: "kube-proxy" }), OF);
  assertStringIncludes(
    renderTable([recorded, peer]),
    "| docker 20.10.24 | 39 of 40 (first try: 38; kube-proxy: 40) |",
  );
  const page = "<!-- neighbours: begin -->\n<!-- neighbours: end -->\n";
  assertStringIncludes(renderPage(page, [recorded]), "Two tries: in the first one, flows died");
});

Deno.test("a second table names the flows that one proxy alone loses, or counts them", () => {
  const own = afterStart(["pod1: node port: drop", "pod1: UDP: drop", "node: x: drop"], [FINDING]);
  const peer = afterStart(["node: x: drop", "pod1: no endpoints: drop, world"], []);
  const many = ["1", "2", "3", "4", "5"].map((each) => `pod1: flow ${each}: drop`);
  const results = [
    own,
    { ...peer, proxy: "kube-proxy" as const },
    { ...result(), name: "ufw" },
    { ...afterStart(many, []), name: "ufw", proxy: "kube-proxy" as const },
  ];
  assertEquals(
    renderTable(results.map((each) => record(each, OF))).split("\n\n")[1],
    `| Program | Mode | signpost alone loses | kube-proxy alone loses |
|---|---|---|---|
| docker | nftables | \`pod1: node port\` | \`pod1: no endpoints\` |
| ufw | nftables | none | 5 flows |
`,
  );
});

Deno.test("the page has the table of the recorded results", async () => {
  const [page, results] = await Promise.all(
    [PAGE, RESULTS].map((path) => Deno.readTextFile(new URL(`../../../${path}`, import.meta.url))),
  );
  assertEquals(renderPage(page ?? "", JSON.parse(results ?? "")), page);
});

Deno.test("each flow of the neighbours' runs has its own name", () => {
  assertEquals(new Set(FLOWS.map(({ name }) => name)).size, FLOWS.length);
  const text = JSON.stringify(OBJECTS);
  const strays = FLOWS.filter(({ name, address, port }) =>
    !name.includes(": control: ") && !text.includes(`"${address}"`) && !text.includes(`${port}`)
  );
  assertEquals(strays, []);
});
