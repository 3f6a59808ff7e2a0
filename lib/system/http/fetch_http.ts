/**
 * The adapter of `HttpClient` over `fetch`, for plain HTTP and for servers whose authorities are
 * given. It reads each body through one buffer, where `node:https` of Deno 2.9 leaves a multiple
 * of the body as garbage and reads on however far behind the reader is: 36 MB of a list cost it
 * 110 MB beside the heap, and cost 3 MB here.
 *
 * @module
 */
import type { TlsSettings } from "../../source/api/access/access.ts";
import { type Proxies, PROXY_VARIABLES } from "../../source/api/access/proxies.ts";
import type { HttpClient, HttpRequest, HttpResponse } from "../../source/api/http/http.ts";
import { ClientPool, type Taken } from "./client_pool.ts";

/** Bytes that are read at once. */
const CHUNK = 64 * 1024;

/** Connections kept open for the next request. */
const MAX_IDLE = 4;

/** Whether this adapter can reach a server: it cannot name the server otherwise, nor trust any. */
export function canFetch({ url, tls }: Pick<HttpRequest, "url" | "tls">): boolean {
  return url.protocol === "http:" ||
    tls.verify && tls.authorities !== undefined && tls.serverName === undefined;
}

/**
 * Makes a client that keeps connections alive. Chunks of a body are valid until the next is read.
 */
export function createFetchHttpClient(proxies: Proxies): HttpClient {
  trustGivenAuthoritiesOnly();
  const pool = new ClientPool({
    key: ({ url, tls }: HttpRequest) => url.protocol === "https:" ? JSON.stringify(tls) : "",
    make: ({ tls }) => withProxies(proxies, () => createClient(tls)),
    end: (client) => client.close(),
  });
  return {
    request: (request) => send(request, pool.take(request)),
    close: () => pool.close(),
  };
}

/**
 * Deno adds the given authorities to those of a store, Mozilla's by default; a kubeconfig's are
 * meant to be the only ones. The store is chosen by this variable when the process first needs it.
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

async function send(
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
 * The chunks of a body. An abort ends it here: `fetch` follows the signal through another one that
 * it holds weakly, and once that is collected the abort is lost (Deno 2.9.6).
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
