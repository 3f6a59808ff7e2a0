import { assertEquals, assertRejects } from "@std/assert";
import {
  type ProcessInput,
  type ProcessResult,
  ProgramFailedError,
} from "../../lib/model/ports/ports.ts";
import { ProgramWatch } from "../../lib/system/process.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";

Deno.test("after 30 s the log says which program is waited for, once", async () => {
  const [clock, logger] = [new ManualClock(), new MemoryLogger()];
  const ending = Promise.withResolvers<ProcessResult>();
  const watch = new ProgramWatch({ runner: { run: () => ending.promise }, clock, logger });
  const running = watch.run(["iptables-save", "-t", "nat"]);
  await clock.advance(29_999);
  assertEquals(logger.lines, []);
  await clock.advance(1);
  assertEquals(logger.lines.length, 1);
  assertEquals(logger.lines[0]?.includes("iptables-save -t nat"), true, logger.lines[0]);
  ending.resolve({ code: 0, stdout: "", stderr: "" });
  await running;
  await clock.advance(60_000);
  assertEquals(logger.lines.length, 1);
});

Deno.test("the time for which a program waits for its input does not count", async () => {
  const [clock, logger] = [new ManualClock(), new MemoryLogger()];
  const input = Promise.withResolvers<string>();
  const ending = Promise.withResolvers<ProcessResult>();
  const runner = {
    run: async (_: readonly string[], stdin?: ProcessInput) => {
      assertEquals(await Array.fromAsync(stdin ?? []), ["script"]);
      return await ending.promise;
    },
  };
  const watch = new ProgramWatch({ runner, clock, logger });
  const running = watch.run(
    ["nft", "-f", "-"],
    async function* () {
      yield await input.promise;
    }(),
  );
  await clock.advance(60_000);
  assertEquals(logger.lines, []);
  input.resolve("script");
  await settle();
  await clock.advance(30_000);
  assertEquals(logger.lines.length, 1);
  ending.resolve({ code: 0, stdout: "", stderr: "" });
  await running;
});

Deno.test("a program that ends in time leaves no line and no timer", async () => {
  const [clock, logger] = [new ManualClock(), new MemoryLogger()];
  const result = { code: 0, stdout: "", stderr: "" };
  const watch = new ProgramWatch({ runner: { run: () => Promise.resolve(result) }, clock, logger });
  assertEquals(await watch.run(["true"]), result);
  await settle();
  await clock.advance(60_000);
  assertEquals(logger.lines, []);
});

Deno.test("failures before the first listener are reported", async () => {
  const runner = {
    run: ([program]: readonly [string, ...string[]]) =>
      Promise.reject(new ProgramFailedError(program, "timeout", "hung")),
  };
  const watch = new ProgramWatch({ runner, clock: new ManualClock(), logger: new MemoryLogger() });
  const told: string[] = [];
  await assertRejects(() => watch.run(["nft", "-f", "-"]), ProgramFailedError);
  watch.reportTo((program, failure) => told.push(`${program} ${failure}`));
  await assertRejects(() => watch.run(["conntrack", "-L"]), ProgramFailedError);
  assertEquals(told, ["nft timeout", "conntrack timeout"]);
});
