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

/** Milliseconds after which an idle connection is probed by TCP keepalive. */
const KEEP_ALIVE_PROBE = 30_000;

/** Connections kept open for the next request. */
const MAX_FREE_SOCKETS = 4;

/** An agent, and what it was made from. */
interface Pool {
  readonly key: string;
  readonly agent: https.Agent;
  inUse: number;
}

/**
 * Makes a client for `https:` URLs that keeps connections alive.
 *
 * Connections are pooled by TLS settings: when a certificate or authority has changed, the next
 * request opens a new connection, and the old ones end with the requests that use them.
 */
export function createNodeHttpClient(proxies: Proxies): HttpClient {
  let pool: Pool | undefined;
  const poolFor = (request: HttpRequest): Pool => {
    const key = JSON.stringify(request.tls);
    if (pool?.key === key) return pool;
    if (pool?.inUse === 0) pool.agent.destroy();
    pool = { key, agent: createAgent(request.tls, proxies), inUse: 0 };
    return pool;
  };
  const release = (used: Pool) => {
    used.inUse--;
    if (used !== pool && used.inUse === 0) used.agent.destroy();
  };
  return {
    request: (request) => {
      const used = poolFor(request);
      used.inUse++;
      return send(request, { agent: used.agent, onClose: () => release(used) });
    },
    close: () => {
      pool?.agent.destroy();
      pool = undefined;
    },
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
    ...(tls.authorities && { ca: [...tls.authorities] }),
    ...(tls.certificate && { cert: tls.certificate }),
    ...(tls.key && { key: tls.key }),
    ...(tls.serverName && { servername: tls.serverName }),
  });
}

function loadHttps(): typeof https {
  return process.getBuiltinModule("node:https");
}

interface SendOptions {
  readonly agent: https.Agent;
  /** Called once, when the connection is free again or gone. */
  readonly onClose: () => void;
}

function send(request: HttpRequest, { agent, onClose }: SendOptions): Promise<HttpResponse> {
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
    onClose();
    return Promise.reject(error);
  }
  outgoing.on("error", reject);
  outgoing.once("close", onClose);
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
