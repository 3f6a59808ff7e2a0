import { assertEquals } from "@std/assert";
import {
  Findings,
  isNoAnswer,
  isSignposts,
  tableOf,
} from "../../../tools/kernels/ipvs/findings.ts";
import { targetsOf } from "../../../tools/kernels/ipvs/probes.ts";

Deno.test("a refusal, silence or a packet that left is not an answer", () => {
  const right = [
    "refused",
    "silence",
    "refused / silence / world",
    "refused (UDP silence)",
    "refused by EHOSTUNREACH",
  ];
  assertEquals(right.filter(isNoAnswer), right);
  const wrong = ["", "node", "endpoint", "refused / node / refused", "refused (UDP endpoint)"];
  assertEquals([...wrong, "SystemError: bind"].filter(isNoAnswer), []);
});

Deno.test("a Service is to be answered by an endpoint alone, everything else by nothing", () => {
  assertEquals(isSignposts("endpoint", { isServed: true }), true);
  assertEquals(isSignposts("endpoint / refused / endpoint", { isServed: true }), false);
  assertEquals(isSignposts("refused", { isServed: false }), true);
  assertEquals(isSignposts("endpoint", { isServed: false }), false);
});

Deno.test("what answers wrongly, or was not tried, is a problem by its name", () => {
  const answers = new Map(
    targetsOf(4).map(({ what, isServed }) => [`IPv4 ${what}`, isServed ? "endpoint" : "refused"]),
  );
  answers.set("IPv4 node port", "silence");
  answers.delete("IPv4 external IP");
  const findings = new Findings(() => {});
  findings.judge(answers, [4], isSignposts);
  assertEquals(findings.problems, ["IPv4 external IP: not tried", "IPv4 node port: silence"]);
});

Deno.test("a table has a row for all that was ever tried", () => {
  assertEquals(tableOf([new Map([["a", "1"]]), new Map([["a", "2"], ["b", "3"]])]), [
    "| a | 1 | 2 |",
    "| b |  | 3 |",
  ]);
});
