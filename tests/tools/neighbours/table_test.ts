import { assertEquals, assertStringIncludes } from "@std/assert";
import { FLOWS, OBJECTS } from "../../../tools/neighbours/cluster.ts";
import { renderTable, type Result, silentLosses } from "../../../tools/neighbours/table.ts";

const PASSED = { passed: 40, total: 40, failures: [], findings: [] };
const FINDING =
  "warning chain FORWARD of table ip filter drops connections [firewall-drops-services]";

function result(changes: Partial<Result> = {}): Result {
  return {
    name: "docker",
    root: "debian12",
    proxy: "signpost",
    mode: "nftables",
    version: "20.10|24",
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

Deno.test("the table of neighbours names flows and findings, and keeps its columns", () => {
  const table = renderTable([afterStart(["pod1: UDP: drop"], [FINDING])]);
  assertStringIncludes(
    table,
    "| docker 20.10 24 | debian12 | signpost nftables | alone 40/40, after: started 39/40 | `firewall-drops-services` |",
  );
});

Deno.test("each flow of the neighbours' runs has a name of its own and a Service or a control", () => {
  assertEquals(new Set(FLOWS.map(({ name }) => name)).size, FLOWS.length);
  const text = JSON.stringify(OBJECTS);
  const strays = FLOWS.filter(({ name, address, port }) =>
    !name.includes(": control: ") && !text.includes(`"${address}"`) && !text.includes(`${port}`)
  );
  assertEquals(strays, []);
});
