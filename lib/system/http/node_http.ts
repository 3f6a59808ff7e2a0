/**
 * The adapter of `HttpClient` over `node:https`, which, unlike `fetch`, takes a server name and can
 * leave out the verification. The module is loaded by the first request: few need it, and it takes
 * its time.
 *
 * @module
 */
import type * as http from "node:http";
import type * as https from "node:https";
import process from "node:process";
import type { TlsSettings } from "../../source/api/access/access.ts";
import type { Proxies } from "../../source/api/access/proxies.ts";
import type { HttpClient, HttpRequest, HttpResponse } from "../../source/api/http/http.ts";
import { ClientPool, type Taken } from "./client_pool.ts";

/** Milliseconds after which an idle connection is probed by TCP keepalive. */
const KEEP_ALIVE_PROBE = 30_000;

/** Connections kept open for the next request. */
const MAX_FREE_SOCKETS = 4;

/** Makes a client for `https:` URLs that keeps connections alive. */
export function createNodeHttpClient(proxies: Proxies): HttpClient {
  const pool = new ClientPool({
    key: ({ tls }: HttpRequest) => JSON.stringify(tls),
    make: ({ tls }) => createAgent(tls, proxies),
    end: (agent) => agent.destroy(),
  });
  return {
    request: (request) => send(request, pool.take(request)),
    close: () => pool.close(),
  };
}

function createAgent(tls: TlsSettings, proxies: Proxies): https.Agent {
  const { Agent } = loadHttps();
  return new Agent({
    ...(Object.keys(proxies).length > 0 && { proxyEnv: proxies }),
    keepAlive: true,
    keepAliveMsecs: KEEP_ALIVE_PROBE,
    maxFreeSockets: MAX_FREE_SOCKETS,
    rejectUnauthorized: tls.verify,
    // Without a list, Deno asks for a permission to read the machine's authorities.
    ca: [...tls.authorities ?? []],
    ...(tls.certificate && { cert: tls.certificate }),
    ...(tls.key && { key: tls.key }),
    ...(tls.serverName && { servername: tls.serverName }),
  });
}

function loadHttps(): typeof https {
  return process.getBuiltinModule("node:https");
}

function send(
  request: HttpRequest,
  { client: agent, release }: Taken<https.Agent>,
): Promise<HttpResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<HttpResponse>();
  let outgoing: http.ClientRequest;
  try {
    outgoing = loadHttps().request(request.url, {
      method: request.method,
      headers: request.headers,
      agent,
      signal: request.signal,
    });
  } catch (error) {
    release();
    return Promise.reject(error);
  }
  outgoing.on("error", reject);
  outgoing.once("close", release);
  outgoing.once("response", (response) => {
    resolve({
      status: response.statusCode ?? 0,
      headers: flatten(response.headers),
      body: response,
    });
  });
  outgoing.end(request.body);
  return promise;
}

function flatten(headers: http.IncomingHttpHeaders): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(headers).map((
      [name, value],
    ) => [name, Array.isArray(value) ? value.join(", ") : value]),
  );
}
