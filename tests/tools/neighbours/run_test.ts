import { assertEquals } from "@std/assert";
import { judge } from "../../../tools/neighbours/run.ts";

type Answers = readonly [failures: readonly string[], findings: readonly string[]];

const LOST = ["pod1: UDP: drop"];
const CONTROL = ["pod1: control: outside: drop"];
const FOUND = ["warning rules are gone [rules-changed]"];

/** Judges a stage with the answers of each try; a missing one has answers of its own. */
async function judgeTries(tries: readonly Answers[]): Promise<readonly Answers[]> {
  const [sent, asked] = [tries.values(), tries.values()];
  const judged = await judge(
    () => Promise.resolve([...sent.next().value?.[0] ?? ["no try left"]]),
    () => Promise.resolve([...asked.next().value?.[1] ?? ["no try left"]]),
  );
  return judged.map(({ failures, findings = [] }) => [failures, findings]);
}

Deno.test("a stage has one try if check reports why flows die, or only controls die", async () => {
  for (const one of [[LOST, FOUND], [CONTROL, []], [[], []]] as const) {
    assertEquals(await judgeTries([one]), [one]);
  }
});

Deno.test("a stage has a second try, and no third, if flows die and check reports nothing", async () => {
  for (const second of [[[], []], [LOST, FOUND], [LOST, []]] as const) {
    assertEquals(await judgeTries([[LOST, []], second]), [[LOST, []], second]);
  }
});
