import { assertEquals, assertThrows } from "@std/assert";
import { MACHINE_RUNS } from "../../../tools/kernels/catalog.ts";
import {
  type Backend,
  BACKENDS,
  collectResults,
  PARTS,
  type RunResult,
  stepsOf,
} from "../../../tools/kernels/steps.ts";
import {
  countSteps,
  renderProblems,
  renderTable,
  replaceTable,
} from "../../../tools/kernels/table.ts";

const STEP = { seconds: 1, passed: true, detail: "" };
const RESULTS: readonly RunResult[] = [
  {
    name: "bookworm",
    note: "",
    version: "6.1.192-2",
    facts: { release: "6.1.0-56-amd64", nft: "nftables v1.0.6 (Lester Gooch #5)", boot: 10.5 },
    steps: [
      { ...STEP, backend: "nftables", part: "flows", detail: "52/52 flows as expected" },
      ...(["start", "drift", "restart", "cleanup"] as const).map((part) => (
        { ...STEP, backend: "nftables" as const, part }
      )),
      { ...STEP, backend: "iptables", part: "flows", passed: false, detail: "68/70 flows" },
      { ...STEP, backend: "iptables", part: "drift", passed: false, detail: "not repaired" },
      { ...STEP, backend: "iptables", part: "start", passed: false, detail: "not repaired" },
      { ...STEP, backend: "iptables", part: "restart" },
      { ...STEP, backend: "iptables-legacy", part: "start" },
    ],
    seconds: 190,
  },
  { name: "sid", note: "", version: "", steps: [], seconds: 0, leftOut: "no network" },
];

Deno.test("the table of kernels has a row for each run", () => {
  assertEquals(
    renderTable(RESULTS).replaceAll(/ +/g, " ").replaceAll(/-+/g, "-").split("\n"),
    [
      "| name | kernel | nft | nftables | iptables | iptables-legacy | minutes |",
      "|-|-|-|-|-|-|-|",
      "| bookworm | 6.1.0-56-amd64 | 1.0.6 | 52/52, works | 68/70, failed: start, drift | start | 3.2 |",
      "| sid | | | | | | left out |",
      "",
    ],
  );
});

Deno.test("failures of one reason have one line", () => {
  assertEquals(renderProblems(RESULTS), [
    "failed: bookworm: iptables flows: 68/70 flows",
    "failed: bookworm: iptables drift, iptables start: not repaired",
    "left out: sid: no network",
  ]);
  assertEquals(countSteps(RESULTS), { passed: 7, failed: 3 });
});

Deno.test("the table goes between a document's marks, again and again", () => {
  const document = "# Kernels\n<!-- kernels: begin -->\nold\n<!-- kernels: end -->\nmore\n";
  const changed = replaceTable(document, "new\n");
  assertEquals(changed, document.replace("old", "new"));
  assertEquals(replaceTable(changed, "new\n"), changed);
  assertThrows(() => replaceTable("# Kernels\n", "new\n"), Error, "kernels: begin");
});

Deno.test("a machine tries every part with every backend, but flows only with IPv6", () => {
  const names = ["bookworm", "no-ipv6", "sid-old-nft", "flowtables-sid"];
  const [bookworm, noIpv6, oldNft, flowtables] = names.map((name) => {
    const run = MACHINE_RUNS.find((each) => each.name === name);
    if (run === undefined) throw new Error(`no ${name}`);
    return (backends: readonly Backend[] = BACKENDS) => stepsOf(run, backends).length;
  });
  const all = BACKENDS.length * PARTS.length;
  assertEquals(bookworm?.(), all);
  assertEquals(bookworm?.(["iptables"]), PARTS.length);
  assertEquals(noIpv6?.(), all - BACKENDS.length);
  assertEquals(oldNft?.(), PARTS.length);
  assertEquals([flowtables?.(), flowtables?.(["iptables"])], [1, 0]);
});

Deno.test("a step without a result has failed", () => {
  const steps = [{ backend: "nftables", part: "start" }, {
    backend: "nftables",
    part: "drift",
  }] as const;
  const start = { ...steps[0], passed: true, detail: "", seconds: 2 };
  assertEquals(collectResults(steps, [JSON.stringify(start)], "the machine ended"), [
    start,
    { ...steps[1], passed: false, detail: "the machine ended", seconds: 0, isTried: false },
  ]);
});
