import { assertEquals } from "@std/assert";
import { socketRoutes } from "../../lib/daemon/daemon.ts";
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

Deno.test("the socket gives the command line, and asks the loop for a full sync", async () => {
  const { parts, ask } = daemon();
  const asked: string[] = [];
  parts.loop.requestFull = (reason) => asked.push(reason);
  assertEquals(await ask("GET /v1/command-line"), COMMAND_LINE);
  assertEquals(await ask("GET /v1/held-back"), []);
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

Deno.test("the socket gives the status, after a look at the node or with a Service if that is wanted", async () => {
  const { parts, ask } = daemon();
  parts.findings.refresh = () => Promise.resolve(parts.observation.drifted());
  const status = await ask("GET /v1/status") as Status;
  assertEquals([status.node, status.service, status.driftRepairs], ["node-1", undefined, 0]);
  assertEquals((await ask("GET /v1/status", "fresh") as Status).driftRepairs, 1);
  const { service } = await ask("GET /v1/status", "service=shop/web") as Status;
  assertEquals(service?.service, "shop/web");
});

Deno.test("the socket gives the objects of all Services or one, once they are there", async () => {
  const { parts, ask } = daemon();
  assertEquals(await ask("GET /v1/objects"), undefined);
  const decode = createDecoder();
  const decoded = ["web", "db"].map((name) => decode("Service", service(name)));
  for (const kind of KINDS) {
    parts.cache.apply(replacement(kind, kind === "Service" ? decoded : []));
  }
  assertEquals(await ask("GET /v1/services", "name=web"), ["default/web"]);
  const text = async (query: string) =>
    await new Response(await ask("GET /v1/objects", query) as ReadableStream).text();
  const names = async (query: string) =>
    [...new Set((await text(query)).match(/"name":"(?:web|db)"/g))].sort();
  assertEquals(await names(""), ['"name":"db"', '"name":"web"']);
  assertEquals(await names("service=default/db"), ['"name":"db"']);
});
