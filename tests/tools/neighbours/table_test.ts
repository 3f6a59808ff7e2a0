import { assertEquals, assertStringIncludes } from "@std/assert";
import { FLOWS, OBJECTS } from "../../../tools/neighbours/cluster.ts";
import type { Stage } from "../../../tools/neighbours/run.ts";
import {
  PAGE,
  renderPage,
  renderTable,
  type Result,
  resultOf,
  RESULTS,
  silentLosses,
} from "../../../tools/neighbours/table.ts";

const ALONE: Stage = { name: "alone", total: 40, failures: [], findings: [] };
const FINDING =
  "warning chain FORWARD of table ip filter drops connections [firewall-drops-services]";

function result(stages: readonly Stage[], changes: Partial<Result> = {}): Result {
  const run = {
    name: "docker",
    root: "debian12",
    proxy: "signpost",
    mode: "nftables",
    version: "20.10.24+dfsg1-1+deb12u1",
  } as const;
  return { ...resultOf(run, stages), ...changes };
}

function afterStart(failures: readonly string[], findings: readonly string[]): Stage[] {
  return [ALONE, { name: "after: started", total: 40, failures, findings }];
}

const PEER = { proxy: "kube-proxy" } as const;
const LOSSY = afterStart(["pod1: UDP: drop"], []);
const AGAIN = { ...ALONE, name: "after: started, again" };

Deno.test("a run fails if a flow dies beside a neighbour and check reports nothing", () => {
  const silent = "check reports nothing: pod1: UDP: drop";
  assertEquals(silentLosses(LOSSY), [`after: started: ${silent}`]);
  assertEquals(silentLosses(afterStart(["pod1: UDP: drop"], [FINDING])), []);
  assertEquals(silentLosses(afterStart(["pod1: control: outside: drop"], [])), []);
  assertEquals(silentLosses([...LOSSY, AGAIN]), []);
  assertEquals(silentLosses([...LOSSY, { ...AGAIN, failures: ["pod1: UDP: drop"] }]), [
    `after: started, again: ${silent}`,
  ]);
});

Deno.test("the table of neighbours has the fewest flows that passed, and the findings", () => {
  const lossy = afterStart(["pod1: UDP: drop"], [FINDING]);
  const results = [
    result([ALONE]),
    result(lossy, { mode: "iptables" }),
    result([ALONE], { mode: "iptables", ...PEER }),
    result([ALONE], { name: "bird", version: "2.0.12-7" }),
    result([ALONE], { name: "lxd", version: "5.0.2", root: "sid" }),
  ];
  assertEquals(
    renderTable(results),
    `| Program | nftables | iptables | Findings |
|---|---|---|---|
| docker 20.10.24 | 40 of 40 | 39 of 40 (kube-proxy: 40) | \`firewall-drops-services\` |
| bird 2.0.12, lxd 5.0.2 (sid) | 40 of 40 |  |  |
`,
  );
});

Deno.test("a row has what the first try lost, and says that there was a second one", () => {
  const own = result([...LOSSY, AGAIN]);
  assertEquals(own.stages, { "alone": 40, "after: started": 39, "after: started, again": 40 });
  assertEquals(own.lost, { "pod1: UDP": "after: started" });
  assertStringIncludes(
    renderTable([own]),
    "| docker 20.10.24 | 39 of 40 |  | nothing before a second try |",
  );
});

Deno.test("a second table names the flows that one proxy alone loses, or counts them", () => {
  const own = afterStart(["pod1: node port: drop", "pod1: UDP: drop", "node: x: drop"], [FINDING]);
  const peer = afterStart(["node: x: drop", "pod1: no endpoints: drop, world"], []);
  const many = ["1", "2", "3", "4", "5"].map((each) => `pod1: flow ${each}: drop`);
  const results = [
    result(own),
    result(peer, PEER),
    result([ALONE], { name: "ufw" }),
    result(afterStart(many, []), { name: "ufw", ...PEER }),
  ];
  assertEquals(
    renderTable(results).split("\n\n")[1],
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
