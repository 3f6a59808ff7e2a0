import { assertGreater } from "@std/assert";
import { formatReport, soak } from "./soak.ts";

const SECONDS = Number(Deno.env.get("SOAK_SECONDS") ?? 30);

Deno.test("random changes and faults leave the kernel with what the objects ask for", async () => {
  const report = await soak({ seconds: SECONDS, seed: 1 });
  Deno.stdout.writeSync(new TextEncoder().encode(formatReport(report)));
  assertGreater(report.partialSyncs, 0);
  assertGreater(report.driftRepairs, 0);
  assertGreater(report.failedSyncs, 0);
});
