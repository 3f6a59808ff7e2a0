/**
 * The scripts of the golden cases, in every mode. After a change that is meant:
 *
 * ```
 * UPDATE_GOLDEN=1 deno test -A tests/backend/backend_golden_test.ts
 * ```
 */
import { assertEquals } from "@std/assert";
import { SCHEDULERS } from "../../lib/model/cluster/scheduler.ts";
import { backendOf, MODES } from "../support/modes.ts";
import { KERNEL_STAGES } from "./contract_stage.ts";
import { FOLDER, readCases, runCase } from "./golden.ts";
import { HAS_FLOWTABLES } from "../support/flowtables.ts";

const CASES = readCases();
const UPDATE = Deno.env.get("UPDATE_GOLDEN") === "1";

for (const mode of MODES) {
  for (const golden of CASES) {
    Deno.test(`golden scripts of ${mode}, ${golden.name}: ${golden.description}`, async () => {
      for await (const { file, description, script } of runCase(golden, backendOf(mode))) {
        const path = new URL(file, FOLDER);
        if (UPDATE) await Deno.writeTextFile(path, script.text);
        assertEquals(script.text, await Deno.readTextFile(path), `${file}: ${description}`);
      }
    });
  }
}

Deno.test("every golden script belongs to a case", async () => {
  const known = new Set(CASES.map(({ name }) => `${name}.yaml`));
  for (const mode of MODES) {
    for (const golden of CASES) {
      for await (const { file } of runCase(golden, backendOf(mode))) known.add(file);
    }
  }
  const files = [...Deno.readDirSync(FOLDER)].map(({ name }) => name);
  assertEquals(files.filter((name) => !known.has(name)), []);
});

Deno.test("every scheduler has golden scripts", async () => {
  const used = new Set<string>();
  for (const golden of CASES) {
    for await (const { desired } of runCase(golden, backendOf("nftables"))) {
      for (const port of [...desired.services.values()].flat()) {
        used.add(port.scheduler?.type ?? "random");
      }
    }
  }
  assertEquals(SCHEDULERS.filter((name) => !used.has(name)), []);
});

for (const [name, open] of KERNEL_STAGES) {
  Deno.test(`${name} takes every golden script, one step after the other`, async () => {
    await using stage = await open();
    const { backend } = stage;
    await backend.probe();
    for (const golden of CASES.filter((each) => !each.needsFlowtables || HAS_FLOWTABLES)) {
      for await (const { file, desired } of runCase(golden, backend)) {
        const { differences } = (await backend.rules.read()).compare(desired);
        assertEquals(differences, [], file);
      }
    }
  });
}
