import { assertEquals } from "@std/assert";
import { mergeResults, type Recorded } from "../../../tools/kernels/documents.ts";
import type { StepResult } from "../../../tools/kernels/steps.ts";

const STEP = { detail: "", seconds: 1 };
const STARTS: StepResult = { ...STEP, backend: "nftables", part: "start", passed: true };
const FLOWS: StepResult = { ...STEP, backend: "iptables", part: "flows", passed: true };

function result(name: string, version: string, ...steps: StepResult[]): Recorded {
  return { name, version, note: "", steps, seconds: steps.length, date: "2026-11-23" };
}

Deno.test("new results replace older ones of the same name", () => {
  const [bookworm, trixie] = [result("bookworm", "6.1", STARTS), result("trixie", "6.12", STARTS)];
  assertEquals(
    mergeResults(
      [result("sid", "7.1", STARTS, FLOWS), bookworm],
      [result("sid", "7.2", STARTS), trixie],
    ),
    [bookworm, trixie, result("sid", "7.2", STARTS)],
  );
});

Deno.test("steps that were not run again stay while the kernel is the same", () => {
  const failed = { ...STARTS, passed: false };
  assertEquals(
    mergeResults([result("sid", "7.2", FLOWS, STARTS)], [result("sid", "7.2", failed)]),
    [result("sid", "7.2", failed, FLOWS)],
  );
});

Deno.test("what was not tried is not recorded", () => {
  const untried: StepResult = { ...STARTS, passed: false, isTried: false };
  const before = [result("sid", "7.2", STARTS)];
  assertEquals(mergeResults(before, [result("sid", "7.3", untried)]), before);
  assertEquals(mergeResults(before, [result("sid", "7.2", untried, FLOWS)]), [
    result("sid", "7.2", STARTS, FLOWS),
  ]);
});
