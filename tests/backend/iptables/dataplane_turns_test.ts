import { assert, assertEquals } from "@std/assert";
import { LongTurns } from "../../support/clock_and_log.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { clusterObjects } from "../../support/cluster.ts";
import { newDataplane } from "./kernel.ts";

const SERVICES = 3_000;

const services = (count: number) => [...clusterObjects({ services: count, endpoints: 0 })];

Deno.test("the rules of many Services are written, compared and changed in turns", async () => {
  const clock = new LongTurns();
  const inputs: string[] = [];
  let saved = "";
  const dataplane = newDataplane({
    clock,
    runner: {
      run: ([program], stdin) => {
        if (program.endsWith("-restore")) inputs.push(`${stdin}`);
        const stdout = program.endsWith("-save") ? saved : "";
        return Promise.resolve({ code: 0, stdout, stderr: "" });
      },
    },
    families: [4],
  });
  const pipeline = new Pipeline({ mode: "iptables" });
  await pipeline.apply(dataplane, services(SERVICES));
  assert(clock.turns >= SERVICES, `${clock.turns} turns`);
  // What is there is read back.
  saved = inputs.join("").repeat(3);
  const before = clock.turns;
  await dataplane.apply(dataplane.full(pipeline.desired));
  assert(clock.turns - before > SERVICES, `${clock.turns - before} turns`);
  assertEquals(inputs[1]?.split("\n").length, inputs[0]?.split("\n").length);
  const { change } = pipeline.load(services(1));
  let turns = 0;
  for (const _ of dataplane.changing(change, pipeline.desired)) turns++;
  assert(turns >= SERVICES - 1, `${turns} turns`);
});
