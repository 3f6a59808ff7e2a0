/** Adapter: sends HTTP requests to the API server, with the client that a connection needs. */
import { type Proxies, PROXY_VARIABLES } from "../source/api/access/access_source.ts";
import type { HttpClient, HttpResponse, OutgoingRequest } from "../source/api/api_client.ts";
import type { TlsSettings } from "../source/api/access/access.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { portOf, unbracketed } from "../model/cluster/names.ts";
import { parseAddress } from "../model/values/address.ts";
import { tcp } from "./tcp.ts";

/**
 * Makes a client for any server that a kubeconfig can name. `node:https` of Deno 2.9 takes 110 MB for a list of 36 MB,
 * and `fetch` 3 MB. Open requests outlive their client.
 * @param options `proxies`: the proxies of all requests, instead of the environment's. `resolve`: set if a server may
 * have several addresses
 */
export function createHttpClient(
  { proxies = {}, resolve }: {
    readonly proxies?: Proxies;
    readonly resolve?: Runtime["resolve"];
  } = {},
): HttpClient {
  // Deno must trust only the kubeconfig's authorities. The variable names the stores that it trusts too.
  Deno.env.set("DENO_TLS_CA_STORE", ",");
  let last: { readonly key: string; readonly client: Deno.HttpClient } | undefined;
  const close = () => {
    last?.client.close();
    last = undefined;
  };
  let wasSilent = false;
  /** The address of a server that was silent. */
  let chosen: { readonly host: string; readonly address: Promise<string | undefined> } | undefined;
  const clientFor = ({ url, tls }: OutgoingRequest): Deno.HttpClient => {
    const key = url.protocol === "https:" ? JSON.stringify(tls) : "";
    if (last?.key !== key) {
      close();
      last = { key, client: withProxies(proxies, () => createClient(tls)) };
    }
    return last.client;
  };
  const send = async (request: OutgoingRequest) => {
    const { url, signal } = request;
    if (wasSilent) {
      wasSilent = false;
      const isName = parseAddress(unbracketed(url.hostname)) === undefined;
      const mayChoose = resolve && isName && url.protocol === "https:" &&
        Object.keys(proxies).length === 0;
      chosen = mayChoose ? { host: url.host, address: findAnswering(url, resolve) } : undefined;
    }
    const address = chosen?.host === url.host ? await chosen.address : undefined;
    if (address === undefined && canFetch(request)) {
      return await sendByFetch(request, clientFor(request));
    }
    try {
      return await sendByNode(request, { proxies, address });
    } catch (error) {
      if (!signal.aborted) chosen = undefined;
      throw error;
    }
  };
  return {
    request: send,
    close: () => {
      wasSilent = true;
      close();
    },
  };
}

/** Milliseconds in which an address must answer. */
const DIAL_TIMEOUT = 5_000;

/**
 * Returns an address of a name that takes connections; `undefined` if all do. `fetch` begins with one of them, and waits
 * two minutes if it drops packets, longer than any request may take. So it never tries the next address.
 */
async function findAnswering(url: URL, resolve: Runtime["resolve"]): Promise<string | undefined> {
  const addresses = await resolve(url.hostname).catch(() => []);
  const options = { timeout: DIAL_TIMEOUT, signal: new AbortController().signal };
  const tries = await Promise.allSettled(addresses.map(async (address) => {
    (await tcp().connect({ address, port: portOf(url) }, options)).close();
    return address;
  }));
  const answering = tries.flatMap((each) => each.status === "fulfilled" ? [each.value] : []);
  return answering.length < addresses.length ? answering[0] : undefined;
}

const CHUNK = 64 * 1024;

/** Returns true if `fetch` can name the server and trust it. */
function canFetch({ url, tls }: Pick<OutgoingRequest, "url" | "tls">): boolean {
  return url.protocol === "http:" ||
    tls.verify && tls.authorities !== undefined && tls.serverName === undefined;
}

/** Makes a client with these proxies in the environment, from which Deno takes them. */
function withProxies<T>(proxies: Proxies, make: () => T): T {
  const saved = PROXY_VARIABLES.map((name) => [name, Deno.env.get(name)] as const);
  const set = (name: string, text: string | undefined) =>
    text === undefined ? Deno.env.delete(name) : Deno.env.set(name, text);
  try {
    for (const name of PROXY_VARIABLES) set(name, proxies[name]);
    return make();
  } finally {
    for (const [name, text] of saved) set(name, text);
  }
}

function createClient(tls: TlsSettings): Deno.HttpClient {
  return Deno.createHttpClient({
    // A stalled connection must not hold more than one watch.
    http2: false,
    // Connections stay open for the next requests.
    poolMaxIdlePerHost: 4,
    ...(tls.authorities && { caCerts: [...tls.authorities] }),
    ...(tls.certificate && tls.key && { cert: tls.certificate, key: tls.key }),
  });
}

async function sendByFetch(
  { method, url, headers, body, signal }: OutgoingRequest,
  client: Deno.HttpClient,
): Promise<HttpResponse> {
  // `fetch` may miss the abort (see `readBody`).
  const aborted = new Promise<never>((_, reject) =>
    signal.addEventListener("abort", () => reject(signal.reason), { once: true })
  );
  aborted.catch(() => {});
  // `fetch` unpacks the answer. A proxy that packs a watch may hold its events back.
  const isWatch = url.searchParams.has("watch");
  try {
    const answer = fetch(url, {
      client,
      method,
      headers: { "accept-encoding": isWatch ? "identity" : "gzip", ...headers },
      redirect: "manual",
      signal,
      ...(body !== undefined && { body }),
    });
    const response = await Promise.race([answer, aborted]);
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers),
      body: readBody(response.body, signal),
    };
  } catch (error) {
    throw explain(error);
  }
}

/** Yields the chunks of a body until an abort: garbage collection makes `fetch` lose the signal (Deno 2.9). */
async function* readBody(
  body: ReadableStream<Uint8Array> | null,
  signal: AbortSignal,
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
  }
}

/** Returns the cause of an error of `fetch`, without the URL. The error itself says only "fetch failed". */
function explain(error: unknown): unknown {
  const { cause } = error instanceof Error ? error : { cause: undefined };
  if (!(cause instanceof Error)) return error;
  return new Error(cause.message.replace(/^error sending request for url \(.*?\): /, ""), {
    cause: error,
  });
}

/** Sends a request to an `https:` URL over a new connection. @param options.address an address of the URL's host */
async function sendByNode(
  { method, url, headers, body, tls, signal }: OutgoingRequest,
  { proxies, address }: { readonly proxies: Proxies; readonly address: string | undefined },
): Promise<HttpResponse> {
  // Loaded here, because it takes memory and few connections need it.
  const { Agent, request } = await import("node:https");
  const { promise, resolve, reject } = Promise.withResolvers<HttpResponse>();
  const agent = new Agent({
    ...(Object.keys(proxies).length > 0 && { proxyEnv: proxies }),
    rejectUnauthorized: tls.verify,
    // Without a list, Deno asks for a permission to read the machine's authorities.
    ca: [...tls.authorities ?? []],
    ...(tls.certificate && { cert: tls.certificate }),
    ...(tls.key && { key: tls.key }),
    ...(tls.serverName && { servername: tls.serverName }),
  });
  const place = address !== undefined && {
    host: address,
    hostname: address,
    servername: tls.serverName ?? url.hostname,
  };
  const outgoing = request(url, {
    method,
    headers: { host: url.host, ...headers },
    agent,
    signal,
    ...place,
  });
  outgoing.on("error", reject);
  outgoing.once("response", (response) => {
    const { statusCode: status = 0, headers } = response;
    const entries = Object.entries(headers).map(([name, value]) => [name, value?.toString()]);
    resolve({ status, headers: Object.fromEntries(entries), body: response });
  });
  outgoing.end(body);
  return await promise;
}
