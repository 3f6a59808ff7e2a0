import { assertEquals } from "@std/assert";
import { judge, type Stage } from "../../../tools/neighbours/run.ts";

const LOST = ["pod1: UDP: drop"];
const CONTROL = ["pod1: control: outside: drop"];
const FOUND = ["warning rules are gone [rules-changed]"];

/** Judges a stage with the answers of each try; gives the number of tries, too. */
async function judgeTries(
  tries: readonly (readonly [failures: string[], findings: string[]])[],
): Promise<{ tries: number } & Partial<Stage>> {
  let sent = 0;
  let asked = 0;
  const judged = await judge(
    () => Promise.resolve(tries[sent++]?.[0] ?? []),
    () => Promise.resolve(tries[asked++]?.[1] ?? []),
  );
  assertEquals(asked, sent);
  return { tries: sent, ...judged };
}

Deno.test("a stage has one try if check reports why flows die, or only controls die", async () => {
  for (const [failures, findings] of [[LOST, FOUND], [CONTROL, []], [[], []]] as const) {
    const judged = await judgeTries([[[...failures], [...findings]]]);
    assertEquals(judged, { tries: 1, failures: [...failures], findings: [...findings] });
  }
});

Deno.test("a stage has a second try, and no third, if flows die and check reports nothing", async () => {
  assertEquals(await judgeTries([[LOST, []], [[], []]]), {
    ...{ tries: 2, failures: [], findings: [], first: LOST },
  });
  assertEquals(await judgeTries([[LOST, []], [LOST, []], [[], FOUND]]), {
    ...{ tries: 2, failures: LOST, findings: [], first: LOST },
  });
});
