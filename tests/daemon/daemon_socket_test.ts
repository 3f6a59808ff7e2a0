import { assertEquals, assertMatch } from "@std/assert";
import { socketRoutes } from "../../lib/daemon/servers.ts";
import type { Unanswered } from "../../lib/daemon/reports/explanation.ts";
import type { Answer } from "../../lib/explain/answer.ts";
import type { ConnectionsReport } from "../../lib/model/connections.ts";
import type { Status } from "../../lib/model/status.ts";
import { COMMAND_LINE, newParts } from "./parts.ts";
import { service } from "../policy/objects.ts";
import { createDecoder } from "../../lib/source/objects/decode.ts";
import { KINDS } from "../../lib/model/cluster/objects.ts";
import { replacement } from "../support/pipeline.ts";

/** A daemon that has not begun, and the answers of its socket. */
function daemon() {
  const parts = newParts();
  const routes = socketRoutes(parts);
  const ask = async (request: string, query = "") =>
    await routes[request]?.(new URLSearchParams(query));
  return { parts, ask };
}

Deno.test("the socket asks the loop for a full sync", async () => {
  const { parts, ask } = daemon();
  const asked: string[] = [];
  parts.loop.requestFull = (reason) => asked.push(reason);
  assertEquals(await ask("GET /v1/command-line"), COMMAND_LINE);
  assertEquals(await ask("GET /v1/inputs"), { ownPorts: null, heldBack: [] });
  assertEquals(await ask("POST /v1/full-sync"), { requested: true });
  assertEquals(asked, ["asked for at the local socket"]);
});

Deno.test("the socket gives so many of the busiest Services, or as many as it may", async () => {
  const { parts, ask } = daemon();
  const most: (number | undefined)[] = [];
  parts.connections.report = (wanted) => {
    most.push(wanted);
    return Promise.resolve({} as ConnectionsReport);
  };
  for (const query of ["", "top=20", "top=-1", "top=all"]) await ask("GET /v1/connections", query);
  assertEquals(most, [undefined, 20, undefined, undefined]);
});

Deno.test("the socket gives the status, after a look at the node if that is wanted", async () => {
  const { parts, ask } = daemon();
  parts.findings.refresh = () => Promise.resolve(parts.observation.drifted());
  const status = await ask("GET /v1/status") as Status;
  assertEquals([status.node, status.driftRepairs], ["node-1", 0]);
  assertEquals((await ask("GET /v1/status", "fresh") as Status).driftRepairs, 1);
});

/** Gives a daemon the Services `web` and `db`. */
function deliver({ cache, desired }: ReturnType<typeof daemon>["parts"]): void {
  const decode = createDecoder();
  const decoded = ["web", "db"].map((name) => decode("Service", service(name)));
  for (const kind of KINDS) cache.apply(replacement(kind, kind === "Service" ? decoded : []));
  desired.update(cache, cache.takeDirty());
}

Deno.test("the socket gives the objects, once they are there", async () => {
  const { parts, ask } = daemon();
  assertEquals(await ask("GET /v1/objects"), undefined);
  deliver(parts);
  assertEquals(await ask("GET /v1/services"), ["default/web", "default/db"]);
  const text = await new Response(await ask("GET /v1/objects") as ReadableStream).text();
  assertEquals([...new Set(text.match(/"name":"(?:web|db)"/g))].sort(), [
    '"name":"db"',
    '"name":"web"',
  ]);
});

Deno.test("the socket explains a Service or a packet, or says why it cannot", async () => {
  const { parts, ask } = daemon();
  assertEquals(await ask("GET /v1/explain", "question=web"), undefined);
  deliver(parts);
  const explain = async (question: string) =>
    await ask("GET /v1/explain", new URLSearchParams({ question }).toString()) as
      & Partial<Answer>
      & Partial<Unanswered>;
  const { report, about } = await explain("web:80");
  assertEquals([report?.kind, report?.objects.from, about?.ports.length], ["service", "daemon", 1]);
  assertEquals((await explain("10.244.0.9 to 10.96.0.10:80")).report?.kind, "packet");
  const byAddress = (await explain("10.96.0.1")).report;
  assertEquals(byAddress?.kind === "service" && byAddress.service, "default/db");
  assertMatch(
    (await explain("wbe")).problem ?? "",
    /no Service wbe .* Did you mean default\/web\?$/,
  );
  assertMatch((await explain("to 10.96.0.10:80")).problem ?? "", /needs the packet's source/);
  assertMatch((await explain("")).problem ?? "", /needs an argument/);
});
