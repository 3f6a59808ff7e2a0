import { assertEquals } from "@std/assert";
import { socketRoutes } from "../../lib/daemon/daemon.ts";
import { Parts } from "../../lib/daemon/parts.ts";
import { LocalhostListeners } from "../../lib/localhost/listeners.ts";
import type { ConnectionsReport } from "../../lib/model/connections.ts";
import type { Status } from "../../lib/model/status.ts";
import { ServiceManager } from "../../lib/observe/systemd.ts";
import { TCP } from "../../lib/system/tcp.ts";
import { world } from "../cli/runtime.ts";
import { service } from "../policy/objects.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { createDecoder } from "../../lib/source/objects/decode.ts";
import { KINDS } from "../../lib/model/cluster/objects.ts";
import { FakeBackend } from "../support/fake_backend.ts";
import { replacement } from "../support/pipeline.ts";

const COMMAND_LINE = { argv: ["run"], workingDirectory: "/", file: null };

/** The parts of a daemon that has not begun, and the answers of its socket. */
function daemon() {
  const { runtime, logger } = world();
  const parts = new Parts({
    configuration: DEFAULTS,
    commandLine: COMMAND_LINE,
    nodeName: "node-1",
    runtime,
    logger,
    manager: new ServiceManager({
      socket: undefined,
      watchdog: undefined,
      clock: runtime.clock,
      logger,
    }),
    localhost: new LocalhostListeners({ tcp: TCP, clock: runtime.clock }),
    signal: new AbortController().signal,
  }, {
    backend: new FakeBackend({ repairs: false }),
    choice: "",
    version: "1.1.3",
    missing: new Map(),
    refusedFeatures: new Map(),
    findings: [],
    source: { api: undefined, run: () => Promise.resolve() },
  });
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
