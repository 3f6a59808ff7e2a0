/**
 * Adapter: the HTTP client for the API server, chosen by what a connection needs.
 * @module
 */
import { type Proxies, PROXY_VARIABLES } from "../source/api/access/access_source.ts";
import type { HttpClient, HttpRequest, HttpResponse } from "../source/api/api_client.ts";
import type { TlsSettings } from "../source/api/access/access.ts";
import type * as http from "node:http";
import type * as https from "node:https";
import process from "node:process";

/**
 * Makes a client for any server that a kubeconfig can name.
 * @param options `proxies`: those that requests go through, whatever the environment names; none by default
 */
export function createHttpClient(options: { readonly proxies?: Proxies } = {}): HttpClient {
  const { proxies = {} } = options;
  const fetching = createFetchHttpClient(proxies);
  const node = createNodeHttpClient(proxies);
  return {
    request: (request) => (canFetch(request) ? fetching : node).request(request),
    close: () => {
      fetching.close();
      node.close();
    },
  };
}

/** A client for one request. */
interface Taken<C> {
  readonly client: C;
  /** To be called when the request has ended, once or more. */
  readonly release: () => void;
}

/**
 * Keeps the client that was used last. After a change of the TLS settings the next request gets a new client, and
 * the old one ends with the requests that use it.
 */
class ClientPool<C, R> {
  #latest: { readonly key: string; readonly client: C; readonly users: Set<symbol> } | undefined;

  /** @param life how clients are made and ended; requests with the same `key` share one */
  constructor(
    private readonly life: {
      readonly key: (request: R) => string;
      readonly make: (request: R) => C;
      readonly end: (client: C) => void;
    },
  ) {}

  /** The client for a request. */
  take(request: R): Taken<C> {
    const key = this.life.key(request);
    if (this.#latest?.key !== key) {
      this.close();
      this.#latest = { key, client: this.life.make(request), users: new Set() };
    }
    const used = this.#latest;
    const user = Symbol();
    used.users.add(user);
    const release = () => {
      const isLast = used.users.delete(user) && used.users.size === 0;
      if (isLast && used !== this.#latest) this.life.end(used.client);
    };
    return { client: used.client, release };
  }

  /** Ends the client; one that requests use ends with them. */
  close(): void {
    if (this.#latest?.users.size === 0) this.life.end(this.#latest.client);
    this.#latest = undefined;
  }
}

/** Bytes that are read at once. */
const CHUNK = 64 * 1024;

/** Connections kept open for the next request. */
const MAX_IDLE = 4;

/** Returns true if this adapter can reach a server: it cannot name the server otherwise, nor trust any. */
function canFetch({ url, tls }: Pick<HttpRequest, "url" | "tls">): boolean {
  return url.protocol === "http:" ||
    tls.verify && tls.authorities !== undefined && tls.serverName === undefined;
}

/**
 * Makes a client over `fetch` that keeps connections alive. Chunks of a body are valid until the next is read.
 * `node:https` of Deno 2.9 reads on however far behind the reader is: a list of 36 MB takes it 110 MB beside the
 * heap, and `fetch` 3 MB.
 */
function createFetchHttpClient(proxies: Proxies): HttpClient {
  trustGivenAuthoritiesOnly();
  const pool = new ClientPool({
    key: ({ url, tls }: HttpRequest) => url.protocol === "https:" ? JSON.stringify(tls) : "",
    make: ({ tls }) => withProxies(proxies, () => createClient(tls)),
    end: (client) => client.close(),
  });
  return {
    request: (request) => sendByFetch(request, pool.take(request)),
    close: () => pool.close(),
  };
}

/**
 * Deno adds the given authorities to those of a store, Mozilla's by default; a kubeconfig's are meant to be the
 * only ones. The store is chosen by this variable when the process first needs it.
 */
function trustGivenAuthoritiesOnly(): void {
  Deno.env.set("DENO_TLS_CA_STORE", ",");
}

/** A client takes its proxies from the environment as it is when the client is made. */
function withProxies<T>(proxies: Proxies, make: () => T): T {
  const saved = PROXY_VARIABLES.map((name) => [name, Deno.env.get(name)] as const);
  try {
    for (const name of PROXY_VARIABLES) setVariable(name, proxies[name]);
    return make();
  } finally {
    for (const [name, text] of saved) setVariable(name, text);
  }
}

function setVariable(name: string, text: string | undefined): void {
  if (text === undefined) Deno.env.delete(name);
  else Deno.env.set(name, text);
}

function createClient(tls: TlsSettings): Deno.HttpClient {
  return Deno.createHttpClient({
    // A stalled connection must not hold more than one watch.
    http2: false,
    poolMaxIdlePerHost: MAX_IDLE,
    ...(tls.authorities && { caCerts: [...tls.authorities] }),
    ...(tls.certificate && tls.key && { cert: tls.certificate, key: tls.key }),
  });
}

async function sendByFetch(
  { method, url, headers, body, signal }: HttpRequest,
  { client, release }: Taken<Deno.HttpClient>,
): Promise<HttpResponse> {
  signal.addEventListener("abort", release, { once: true });
  try {
    const response = await orAborted(
      signal,
      fetch(url, {
        client,
        method,
        headers: { "accept-encoding": "identity", ...headers },
        redirect: "manual",
        signal,
        ...(body !== undefined && { body }),
      }),
    );
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      body: readBody(response.body, { signal, release }),
    };
  } catch (error) {
    release();
    throw explain(error);
  }
}

/** The answer, or a rejection at the abort, whether or not `fetch` hears of it (see `readBody`). */
async function orAborted(signal: AbortSignal, answer: Promise<Response>): Promise<Response> {
  const aborted = Promise.withResolvers<never>();
  const reject = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", reject, { once: true });
  try {
    return await Promise.race([answer, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", reject);
  }
}

/**
 * The chunks of a body. An abort ends it here: `fetch` follows the signal through another one that it holds weakly,
 * and once that is collected the abort is lost (Deno 2.9.6).
 */
async function* readBody(
  body: ReadableStream<Uint8Array> | null,
  { signal, release }: { readonly signal: AbortSignal; readonly release: () => void },
): AsyncGenerator<Uint8Array> {
  const reader = body?.getReader({ mode: "byob" });
  const cancel = () => void reader?.cancel().catch(() => {});
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  try {
    let buffer = new Uint8Array(CHUNK);
    while (reader) {
      const { value, done } = await reader.read(buffer);
      if (done || value === undefined) return;
      yield value;
      buffer = new Uint8Array(value.buffer);
    }
  } finally {
    signal.removeEventListener("abort", cancel);
    await reader?.cancel().catch(() => {});
    release();
  }
}

/** `fetch` says "fetch failed", and why in the cause, with the full URL in front. */
function explain(error: unknown): unknown {
  const { cause } = error instanceof Error ? error : { cause: undefined };
  if (!(cause instanceof Error)) return error;
  return new Error(cause.message.replace(/^error sending request for url \(.*?\): /, ""), {
    cause: error,
  });
}

/** Milliseconds after which an idle connection is probed by TCP keepalive. */
const KEEP_ALIVE_PROBE = 30_000;

/** Connections kept open for the next request. */
const MAX_FREE_SOCKETS = 4;

/** Makes a client for `https:` URLs that keeps connections alive. */
function createNodeHttpClient(proxies: Proxies): HttpClient {
  const pool = new ClientPool({
    key: ({ tls }: HttpRequest) => JSON.stringify(tls),
    make: ({ tls }) => createAgent(tls, proxies),
    end: (agent) => agent.destroy(),
  });
  return {
    request: (request) => sendByNode(request, pool.take(request)),
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

function sendByNode(
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
