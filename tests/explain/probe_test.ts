import { assertEquals } from "@std/assert";
import { probe, probeFindings, probesOf } from "../../lib/explain/probe.ts";
import type { ProbedConnection } from "../../lib/explain/report.ts";
import { endpoint, explainWeb, LOCAL, REMOTE, slice, web } from "./cluster.ts";

/** Answers as each address does: `open`, or the code of an error. */
async function results(answers: Readonly<Record<string, string>>, signal = AbortSignal.any([])) {
  const { ports } = explainWeb([
    web(),
    slice([LOCAL, REMOTE, endpoint("10.244.1.12", "node-2", { conditions: { ready: false } })]),
  ]);
  return await probe(probesOf(ports).targets, {
    ask: ({ address }) => {
      const answer = answers[address] ?? "open";
      return answer === "open"
        ? Promise.resolve()
        : Promise.reject(Object.assign(new Error(answer), { code: answer }));
    },
    clock: { monotonic: () => 0 },
    signal,
    atOnce: 2,
  });
}

const textOf = (each: ProbedConnection) => `${each.type} ${each.address} ${each.text}`;

Deno.test("a probe connects to all endpoints, then to frontends", async () => {
  const connections = await results({
    "10.244.1.11": "ECONNREFUSED",
    "10.244.1.12": "EHOSTUNREACH",
    "10.96.0.10": "EMFILE",
  });
  assertEquals(connections.map(textOf), [
    "endpoint 10.244.0.11 open 0 ms",
    "endpoint 10.244.1.11 refused: nothing listens on 8080, or a rule rejects it",
    "endpoint 10.244.1.12 no route",
    "clusterIP 10.96.0.10 failed: EMFILE",
  ]);
});

Deno.test("an endpoint that is not used makes no finding", async () => {
  assertEquals(probeFindings(await results({ "10.244.1.12": "ECONNREFUSED" })), []);
});

Deno.test("a frontend is judged only if all used endpoints answer", async () => {
  const codes = async (answers: Readonly<Record<string, string>>) =>
    probeFindings(await results(answers)).map(({ severity, code }) => `${severity} ${code}`);
  const refused = "ECONNREFUSED";
  assertEquals(await codes({ "10.96.0.10": refused }), ["error frontend-unreachable"]);
  assertEquals(await codes({ "10.96.0.10": refused, "10.244.1.11": refused }), [
    "warning endpoint-unreachable",
  ]);
  assertEquals(await codes({ "10.244.0.11": refused, "10.244.1.11": refused }), [
    "error endpoint-unreachable",
  ]);
});

Deno.test("an aborted probe keeps nothing that it did not see", async () => {
  assertEquals(await results({}, AbortSignal.abort()), []);
});
