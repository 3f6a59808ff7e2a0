/**
 * Random changes and random faults at once: in the end what was delivered is what there is.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import type { FaultType } from "../support/api_faults.ts";
import { errorEvent } from "../support/api_answers.ts";
import type { ApiServer } from "../support/api_server.ts";
import { eventually } from "../support/eventually.ts";
import { service, withWatch } from "./watch_fixture.ts";

type Step = readonly [action: number, object: number];

const FAULTS: readonly FaultType[] = [
  { type: "status", status: 401 },
  { type: "status", status: 410 },
  { type: "status", status: 500 },
  { type: "errorEvent", status: 410 },
  { type: "garbage" },
  { type: "halfLine" },
  { type: "cut" },
  { type: "close" },
];

const ACTIONS: readonly ((server: ApiServer, object: number, step: number) => void)[] = [
  (server, object, step) => server.store.put(service(`s-${object}`, String(step))),
  (server, object, step) => server.store.put(service(`s-${object}`, String(step))),
  (server, object) => server.store.delete("Service", `default/s-${object}`),
  (server, object) => server.faults.add(FAULTS[object % FAULTS.length] ?? { type: "cut" }),
  (server, object) => server.dropStreams({ end: object % 2 === 0 }),
  (server) => server.compact(),
  (server) => server.sendRaw('{"type":"MODIFIED","object":'),
  (server) => server.sendRaw(errorEvent(500, "injected")),
  (server) => server.bookmark(),
  (server) => server.expireContinueTokens(),
];

for (const streamingLists of ["yes", "refuse"] as const) {
  Deno.test(`after any changes and faults the state is right (streaming lists: ${streamingLists})`, async () => {
    const limits = { pageSize: 3 };
    await withWatch(
      { server: { streamingLists }, limits, objects: 5 },
      async ({ server, sink }) => {
        const steps = fc.array(fc.tuple(fc.nat(ACTIONS.length - 1), fc.nat(9)), { maxLength: 30 });
        const expected = () =>
          new Map(
            server.store.list("Service").map(({ object: { metadata } }) => [
              `default/${metadata.name}`,
              metadata.labels?.["version"] ?? "",
            ]),
          );
        const play = async (script: readonly Step[]) => {
          for (const [index, [action, object]] of script.entries()) {
            ACTIONS[action]?.(server, object, index);
            // Some steps meet a stream that is open, others one that is on its way.
            if (object % 3 === 0) await new Promise((resolve) => setTimeout(resolve, object));
          }
          // Half a line that nothing follows would stay half a line.
          server.dropStreams();
          await eventually("the state is right", () => {
            assertEquals(sorted(sink.state.get("Service")), sorted(expected()));
            return true;
          }, { interval: 5 });
        };
        await fc.assert(fc.asyncProperty(steps, play), { numRuns: 30, endOnFailure: true });
      },
    );
  });
}

function sorted(objects: ReadonlyMap<string, string> = new Map()): readonly string[] {
  return [...objects].map(([key, version]) => `${key} ${version}`).sort();
}
