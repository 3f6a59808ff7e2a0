/**
 * The test API server as a process of its own, for tests in namespaces and for benchmarks.
 *
 *     deno run -A tests/support/api_server_main.ts --dir DIR [--host 127.0.0.1] [--port 0]
 *       [--control-port 0] [--token TOKEN] [--generate SERVICESxENDPOINTS] [--plain]
 *
 * DIR gets the certificates, a `kubeconfig`, and, when all is ready, `control`: the base URL of
 * plain HTTP requests that change the server:
 *
 *     POST /objects   an object, or an array of them: added or replaced
 *     POST /delete    {"kind", "key"}: removed
 *     POST /faults    a fault, see api_faults.ts; DELETE /faults: none from now on
 *     POST /options   settings of the running server, see ApiServerOptions
 *     POST /actions   {"action", ...}: bookmark, compact, restart, dropStreams, sendRaw, silence,
 *                     expireContinueTokens, stop, start
 *     GET  /objects?kind=KIND, /requests
 */
import { ApiServer } from "./api_server.ts";
import type { ApiObject } from "./api_store.ts";
import { makeCertificates } from "./certificates.ts";
import { clusterObjects } from "./cluster.ts";

type Body = Readonly<Record<string, unknown>>;

/** Answers one control request; what it returns is sent as JSON. */
async function control(server: ApiServer, request: Request): Promise<unknown> {
  const url = new URL(request.url);
  const body: unknown = request.body ? await request.json() : undefined;
  switch (`${request.method} ${url.pathname}`) {
    case "POST /objects":
      for (const object of [body].flat() as ApiObject[]) server.store.put(object);
      return { resourceVersion: server.store.resourceVersion };
    case "GET /objects":
      return server.store.list(url.searchParams.get("kind") ?? "").map(({ object }) => object);
    case "POST /delete": {
      const { kind, key } = body as { kind: string; key: string };
      return { deleted: server.store.delete(kind, key) };
    }
    case "POST /faults":
      server.faults.add(body as Parameters<typeof server.faults.add>[0]);
      return {};
    case "DELETE /faults":
      server.faults.clear();
      return {};
    case "POST /options":
      Object.assign(server.options, body);
      return {};
    case "POST /actions":
      await act(server, body as Body);
      return {};
    case "GET /requests":
      return server.requests;
    default:
      throw new Error(`no such control request: ${request.method} ${url.pathname}`);
  }
}

async function act(server: ApiServer, { action, ...options }: Body): Promise<void> {
  switch (action) {
    case "bookmark":
      return server.bookmark();
    case "compact":
      return server.compact();
    case "expireContinueTokens":
      return server.expireContinueTokens();
    case "dropStreams":
      return server.dropStreams(options);
    case "sendRaw":
      return server.sendRaw(String(options["text"]));
    case "silence":
      return server.silence(options["on"] === true);
    case "restart":
      return await server.restart();
    case "stop":
      return await server.stop();
    case "start":
      return await server.start();
    default:
      throw new Error(`no such action: ${String(action)}`);
  }
}

function readArguments(args: readonly string[]): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (let index = 0; index < args.length; index++) {
    const name = args[index] ?? "";
    if (name === "--plain") values.set(name, "true");
    else values.set(name, args[++index] ?? "");
  }
  return values;
}

async function main(args: readonly string[]): Promise<void> {
  const values = readArguments(args);
  const folder = values.get("--dir");
  if (folder === undefined) throw new Error("--dir is missing");
  const host = values.get("--host") ?? "127.0.0.1";
  const token = values.get("--token");
  const server = new ApiServer({
    host,
    port: Number(values.get("--port") ?? 0),
    ...(token !== undefined && { token }),
    ...(!values.has("--plain") &&
      { certificates: await makeCertificates(folder, [host, "127.0.0.1", "::1", "localhost"]) }),
  });
  const [services = 0, endpoints = 0] = (values.get("--generate") ?? "").split("x").map(Number);
  for (const object of clusterObjects({ services, endpoints })) server.store.put(object);
  await server.start();
  await Deno.writeTextFile(`${folder}/kubeconfig`, server.kubeconfig(token ? { token } : {}));
  const controls = Deno.serve({
    hostname: host,
    port: Number(values.get("--control-port") ?? 0),
    onListen: () => {},
  }, async (request) => {
    try {
      return Response.json(await control(server, request) ?? {});
    } catch (error) {
      return Response.json({ error: String(error) }, { status: 400 });
    }
  });
  const address = host.includes(":") ? `[${host}]` : host;
  await Deno.writeTextFile(`${folder}/control.new`, `http://${address}:${controls.addr.port}`);
  await Deno.rename(`${folder}/control.new`, `${folder}/control`);
}

await main(Deno.args);
