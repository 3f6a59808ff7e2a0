import { assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { fuzz, FuzzError } from "./fuzz.ts";
import { checkObjects } from "./objects.ts";
import { strangeIptablesLine, strangeNftLine } from "./grammar.ts";
import { service } from "../support/cluster.ts";

Deno.test("1,000 hostile objects, watch streams and files do no harm", async () => {
  assertEquals(await fuzz({ seed: 17, runs: 1_000, seconds: 600 }), 1_000);
});

Deno.test("a run ends with its time", async () => {
  assertEquals(await fuzz({ seed: 1, runs: 1_000_000, seconds: 0 }) < 1_000, true);
});

Deno.test("an input that fails is reported with its seed", async () => {
  const input = (seed: number) => seed < 7 ? Promise.resolve() : Promise.reject(new Error("oops"));
  const error = await assertRejects(
    () => fuzz({ seed: 5, runs: 9, seconds: 60, input }),
    FuzzError,
    "input 2: oops",
  );
  assertMatch(error.message, /deno task fuzz --seed 7 --runs 1$/);
});

Deno.test("a Service that took a node port of another would be seen", () => {
  const thief = service({
    namespace: "evil",
    name: "old",
    metadata: { creationTimestamp: "2020-01-01T00:00:00Z" },
    type: "NodePort",
    clusterIP: "10.96.0.78",
    ports: [{ port: 80, nodePort: 30077 }],
  });
  assertThrows(() => checkObjects([thief]), Error, "rules of prod/bank are lost");
});

Deno.test("lines that signpost does not write are strange", () => {
  for (
    const line of [
      "delete table inet other",
      "flush ruleset",
      'include "/etc/passwd"',
      "add rule inet signpost services accept",
      "add rule inet signpost services tcp sport 22 jump mark-for-masquerade",
      "add rule inet signpost services jump a; accept",
      "add chain inet signpost x { type filter hook input priority 0; policy drop; }",
    ]
  ) assertEquals(strangeNftLine(`${line}\n`), line);
  assertMatch(strangeNftLine("table inet signpost {\n") ?? "", /the end/);
  for (
    const line of [
      "*raw",
      ":INPUT DROP [0:0]",
      "-F INPUT",
      "-A INPUT --modprobe=/tmp/x",
      '-A KUBE-SERVICES -m comment --comment "x" -j ACCEPT" -j DROP',
      "-A KUBE-SERVICES -m owner --uid-owner 0 -j ACCEPT",
    ]
  ) assertEquals(strangeIptablesLine(`${line}\n`), line);
});
