/** Random changes and random faults at once: in the end what was delivered is what there is. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import type { FaultType } from "../../support/api_faults.ts";
import type { ApiServer } from "../../support/api_server.ts";
import { eventually } from "../../support/eventually.ts";
import { service, withWatch } from "./watch_fixture.ts";

type Step = readonly [action: number, object: number];

const FAULTS: readonly FaultType[] = [
  { type: "status", status: 401 },
  { type: "status", status: 410 },
  { type: "status", status: 500 },
  { type: "errorEvent", status: 410 },
  { type: "cut" },
  { type: "close" },
];

/** After these a watch is asked for in JSON. */
const GARBAGE: readonly FaultType[] = [{ type: "garbage" }, { type: "halfLine" }];

type Action = (server: ApiServer, object: number, step: number) => void;

const ACTIONS: readonly Action[] = [
  (server, object, step) => server.store.put(service(`s-${object}`, String(step))),
  (server, object, step) => server.store.put(service(`s-${object}`, String(step))),
  (server, object) => server.store.delete("Service", `default/s-${object}`),
  (server, object) => server.faults.add(pick(FAULTS, object)),
  (server, object) => server.dropStreams({ end: object % 2 === 0 }),
  (server) => server.compact(),
  (server) => server.sendError(500, "injected"),
  (server) => server.bookmark(),
  (server) => server.expireContinueTokens(),
];

const JSON_ACTIONS: readonly Action[] = [
  ...ACTIONS,
  (server, object) => server.faults.add(pick(GARBAGE, object)),
  (server) => server.sendRaw('{"type":"MODIFIED","object":'),
];

function pick<T>(list: readonly T[], index: number): T {
  return list[index % list.length] as T;
}

const WAYS = (["yes", "refuse"] as const)
  .flatMap((streamingLists) => [true, false].map((protobuf) => ({ streamingLists, protobuf })));

for (const { streamingLists, protobuf } of WAYS) {
  const way = `streaming lists: ${streamingLists}, protobuf: ${protobuf}`;
  Deno.test(`after any changes and faults the state is right (${way})`, async () => {
    const limits = { pageSize: 3 };
    const actions = protobuf ? ACTIONS : JSON_ACTIONS;
    await withWatch(
      { server: { streamingLists }, protobuf, limits, objects: 5 },
      async ({ server, sink }) => {
        const steps = fc.array(fc.tuple(fc.nat(actions.length - 1), fc.nat(9)), { maxLength: 30 });
        const expected = () =>
          new Map(
            server.store.list("Service").map(({ object: { metadata } }) => [
              `default/${metadata.name}`,
              metadata.labels?.["version"] ?? "",
            ]),
          );
        const play = async (script: readonly Step[]) => {
          for (const [index, [action, object]] of script.entries()) {
            actions[action]?.(server, object, index);
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
