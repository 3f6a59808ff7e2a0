import { assertEquals } from "@std/assert";
import { takeOver } from "../../lib/daemon/foreign_programs.ts";
import { ManualClock, settle } from "../support/clock_and_log.ts";
import { configuration } from "../support/configuration.ts";
import { FakeBackend } from "../support/fake_backend.ts";

Deno.test("what a check finds again of another proxy is followed, beside the checks", async () => {
  const clock = new ManualClock();
  const stop = new AbortController();
  const calls: string[] = [];
  const full: string[] = [];
  const call = (name: string) => void calls.push(name);
  const { traits, foreignRules } = new FakeBackend({ repairs: true });
  const others = takeOver({
    backend: {
      traits,
      foreignRules: {
        ...foreignRules,
        ipvs: undefined,
        finish: () => Promise.resolve(call("finish")),
        follow: () => Promise.resolve(call("follow")),
        check: () => Promise.resolve(call("check")).then(() => true),
      },
    },
    configuration: configuration(),
    clock,
    looked: () => call("looked"),
    requestFull: (reason) => void full.push(reason),
    signal: stop.signal,
  });
  await settle();
  await clock.advance(120_000);
  stop.abort();
  await others;
  assertEquals(calls, ["finish", "follow", "check", "looked", "follow"]);
  assertEquals(full, ["kube-proxy has gone"]);
});
