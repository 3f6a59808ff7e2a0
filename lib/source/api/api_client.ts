/** Sends requests to the API server, with credentials, deadlines and classified errors. */
import type { Clock } from "../../model/ports/ports.ts";
import {
  AccessError,
  type ApiAccess,
  type Credentials,
  readCredentials,
  type ReadFile,
  type TlsSettings,
} from "./access/access.ts";
import { StatusError, WatchError } from "./failure.ts";
import { isApiObject, readApiObject, Remainder } from "./watch_events.ts";
import { fieldAt } from "../../model/values/record.ts";
import { errorText, oneLine } from "../../model/values/text.ts";
import { BoundedMap } from "../../model/values/bounded.ts";

/** One request of the port for outgoing HTTP. Its adapters are in `system/http_client.ts`. */
export interface HttpRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Used for `https:` URLs. */
  readonly tls: TlsSettings;
  /** Ends the request at any stage. Pending promises reject. */
  readonly signal: AbortSignal;
}

/** An answer after its headers. */
export interface HttpResponse {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** The streamed body. Read it to its end or abort the request, else the connection stays open. */
  readonly body: AsyncIterable<Uint8Array>;
}

export interface HttpClient {
  /** Resolves after the headers. Rejects with the system's error, or when aborted. */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Closes idle connections. */
  close(): void;
}

/** One request to the API server, as in client-go's `rest_client_*` metrics. */
export interface RequestResult {
  readonly verb: string;
  readonly host: string;
  /** The HTTP status as text, or `<error>` if there was no answer. */
  readonly code: string;
  /** Milliseconds until the headers of the answer. */
  readonly duration: number;
  /** Bytes of the request's body. */
  readonly size: number;
  /** The code of the previous attempt, if that failed. */
  readonly retryOf?: string;
}

export interface ResponseRead extends Pick<RequestResult, "verb" | "host"> {
  readonly size: number;
}

/** Takes reports. It must be quick and must not throw. */
export interface RequestObserver {
  requestDone?(result: RequestResult): void;
  /** Called when a body has ended or was given up, but not for watches. */
  responseRead?(response: ResponseRead): void;
}

interface ApiClientOptions {
  readonly http: HttpClient;
  /** Called before each request. See `loadAccess`. */
  readonly access: () => Promise<ApiAccess>;
  readonly readFile: ReadFile;
  readonly clock: Clock;
  readonly userAgent: string;
}

interface ApiRequest {
  readonly method?: HttpRequest["method"];
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The `accept` header, `application/json` by default. */
  readonly accept?: string;
  readonly signal: AbortSignal;
  /** Milliseconds until the headers must be in; 60 s by default, as the server's own limit. */
  readonly headerLimit?: number;
  /** Milliseconds between bytes of the body, 60 s by default. */
  readonly idleLimit?: number;
}

/** A successful answer with a streamed body. */
interface ApiStream {
  readonly status: number;
  /** The `content-type` header; `""` if there is none. */
  readonly contentType: string;
  /** Throws a `WatchError` if the stream breaks off or stalls, or the error given to `fail`. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Ends the stream. The reader of the body gets the error. */
  fail(error: WatchError): void;
  /** Releases the connection. */
  close(): void;
}

const DEFAULT_LIMIT = 60_000;
const MAX_ERROR_BODY = 64 * 1024;
/** The longest body read as a whole, in bytes: a list from a server that ignores `limit`. */
const MAX_BODY = 256 * 1024 * 1024;

/** client-go's code if there was no answer. */
const NO_ANSWER = "<error>";

const MAX_REMEMBERED = 100;

export class ApiClient {
  /** Takes reports of requests. */
  observer: RequestObserver = {};
  /** The code of the last GET by path, if that failed: the next one is a retry. */
  readonly #failed = new BoundedMap<string, string>(MAX_REMEMBERED);

  constructor(private readonly options: ApiClientOptions) {}

  /** Sends a request and waits for the headers. @throws {WatchError} without an answer, or if its status is not 2xx */
  async open(path: string, request: ApiRequest): Promise<ApiStream> {
    const exchange = new Exchange(this.options.clock, request);
    try {
      const response = await this.#send(path, { request, exchange });
      if (response.status >= 200 && response.status < 300) return exchange.stream(response);
      throw await readError(response, { what: describe(path, request), exchange });
    } catch (error) {
      exchange.close();
      throw exchange.explain(error, "connection");
    }
  }

  /** Sends a request and reads the answer as JSON. @throws {WatchError} as `open`, or if it is no JSON */
  async json(path: string, request: ApiRequest): Promise<unknown> {
    const stream = await this.open(path, request);
    try {
      return JSON.parse(decodeText(await readBytes(stream.body, MAX_BODY)));
    } catch (error) {
      if (error instanceof WatchError) throw error;
      throw new WatchError("garbage", `${describe(path, request)}: the answer is no JSON`, {
        cause: error,
      });
    } finally {
      stream.close();
    }
  }

  async #credentials(): Promise<Credentials> {
    try {
      const { access, readFile, clock } = this.options;
      return await readCredentials(await access(), { readFile, now: () => clock.now() });
    } catch (cause) {
      if (!(cause instanceof AccessError)) throw cause;
      throw new WatchError("credentials", cause.message, { cause });
    }
  }

  async #send(
    path: string,
    { request, exchange }: { readonly request: ApiRequest; readonly exchange: Exchange },
  ): Promise<HttpResponse> {
    const { userAgent } = this.options;
    const credentials = await this.#credentials();
    const url = requestUrl(credentials.server, path, request.query ?? {});
    const sent: HttpRequest = {
      method: request.method ?? "GET",
      url,
      headers: {
        "accept": request.accept ?? "application/json",
        "user-agent": userAgent,
        ...(credentials.authorization && { authorization: credentials.authorization }),
        ...(request.body !== undefined && { "content-type": "application/json" }),
      },
      ...(request.body !== undefined && { body: JSON.stringify(request.body) }),
      tls: credentials.tls,
      signal: exchange.signal,
    };
    const response = await this.#exchange(sent);
    if (url.searchParams.has("watch")) return response;
    const report = { verb: sent.method, host: url.host };
    const done = (size: number) => this.observer.responseRead?.({ ...report, size });
    return { ...response, body: counted(response.body, done) };
  }

  /** Sends a request, and reports it as client-go counts it. */
  async #exchange(request: HttpRequest): Promise<HttpResponse> {
    const { http, clock } = this.options;
    const { method: verb, url: { host, pathname }, body = "" } = request;
    const start = clock.monotonic();
    const retryOf = verb === "GET" ? this.#failed.get(pathname) : undefined;
    let code = NO_ANSWER;
    try {
      const response = await http.request(request);
      code = String(response.status);
      return response;
    } finally {
      if (verb === "GET") {
        if (code.startsWith("2")) this.#failed.delete(pathname);
        else this.#failed.set(pathname, code);
      }
      this.observer.requestDone?.({
        verb,
        host,
        code,
        duration: clock.monotonic() - start,
        size: new TextEncoder().encode(body).length,
        ...retryOf !== undefined && { retryOf },
      });
    }
  }
}

/** One request in progress. The caller, a limit or `fail` ends it. */
class Exchange {
  readonly #abort = new AbortController();
  readonly signal = this.#abort.signal;
  readonly #onAbort = () => this.#abort.abort();
  #limit: IdleLimit;
  #failure: WatchError | undefined;

  constructor(private readonly clock: Clock, private readonly request: ApiRequest) {
    const { signal, headerLimit } = request;
    if (signal.aborted) this.#abort.abort();
    signal.addEventListener("abort", this.#onAbort, { once: true });
    this.#limit = this.#limitSilence(headerLimit);
  }

  #limitSilence(milliseconds = DEFAULT_LIMIT): IdleLimit {
    const onIdle = () => this.fail(new WatchError("stalled", "the API server went silent"));
    return new IdleLimit(milliseconds, { clock: this.clock, onIdle });
  }

  fail(error: WatchError): void {
    this.#failure ??= error;
    this.close();
  }

  close(): void {
    this.#limit.stop();
    this.request.signal.removeEventListener("abort", this.#onAbort);
    this.#abort.abort();
  }

  stream(response: HttpResponse): ApiStream {
    this.#limit.stop();
    this.#limit = this.#limitSilence(this.request.idleLimit);
    return {
      status: response.status,
      contentType: response.headers["content-type"] ?? "",
      body: this.read(response),
      fail: (error) => this.fail(error),
      close: () => this.close(),
    };
  }

  async *read(response: HttpResponse): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of response.body) {
        this.#limit.touch();
        yield chunk;
        if (this.#failure) break;
      }
    } catch (error) {
      throw this.explain(error, "dropped");
    }
    if (this.#failure) throw this.#failure;
  }

  /** Classifies the system's error: ended by the caller, by a limit, or by the network. */
  explain(error: unknown, reason: "connection" | "dropped"): unknown {
    if (error instanceof WatchError) return error;
    if (this.#failure) return this.#failure;
    const what = reason === "connection"
      ? "no connection to the API server"
      : "the stream broke off";
    return new WatchError(reason, `${what}: ${errorText(error)}`, { cause: error });
  }
}

function requestUrl(server: URL, path: string, query: Readonly<Record<string, string>>): URL {
  const url = new URL(server);
  url.pathname = url.pathname.replace(/\/+$/, "") + path;
  url.search = new URLSearchParams(query).toString();
  return url;
}

function describe(path: string, request: ApiRequest): string {
  return `${request.method ?? "GET"} ${oneLine(path)}`;
}

async function readError(
  response: HttpResponse,
  { what, exchange }: { readonly what: string; readonly exchange: Exchange },
): Promise<StatusError> {
  const { status } = response;
  let message = "";
  try {
    message = statusMessage(await readBytes(exchange.read(response), MAX_ERROR_BODY));
  } catch {
    // The status is enough.
  }
  return new StatusError(
    `${what}: ${status}${message === "" ? "" : ` ${message}`}`,
    status,
    parseRetryAfter(response.headers["retry-after"]),
  );
}

/** Returns the `message` of a `Status` object, or the text itself. */
function statusMessage(bytes: Uint8Array): string {
  if (isApiObject(bytes)) return oneLine(String(readApiObject(bytes)["message"] ?? ""));
  const body = decodeText(bytes);
  try {
    const message = fieldAt(JSON.parse(body), "message");
    if (message !== undefined) return oneLine(String(message));
  } catch {
    // Not JSON, perhaps a load balancer's page.
  }
  return oneLine(body, 80);
}

/** Reads seconds only: the date form needs a correct wall clock. */
function parseRetryAfter(header = ""): number {
  return /^\d{1,6}$/.test(header) ? Number(header) * 1000 : 0;
}

async function readBytes(body: AsyncIterable<Uint8Array>, limit: number): Promise<Uint8Array> {
  const read = new Remainder();
  for await (const chunk of body) {
    read.keep(chunk);
    if (read.length > limit) {
      throw new WatchError("garbage", `the answer is longer than ${limit} bytes`);
    }
  }
  return read.join(new Uint8Array());
}

function decodeText(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

/** Counts the bytes of a body until it ends or is given up. */
async function* counted(
  body: AsyncIterable<Uint8Array>,
  done: (size: number) => void,
): AsyncGenerator<Uint8Array> {
  let size = 0;
  try {
    for await (const chunk of body) {
      size += chunk.length;
      yield chunk;
    }
  } finally {
    done(size);
  }
}

/** Calls back once after too long an idle time, by monotonic time. */
export class IdleLimit {
  readonly #stop = new AbortController();
  #last = 0;

  /** Starts to count. @param milliseconds the longest idle time */
  constructor(
    private readonly milliseconds: number,
    private readonly options: { readonly clock: Clock; readonly onIdle: () => void },
  ) {
    this.touch();
    this.#run();
  }

  touch(): void {
    this.#last = this.options.clock.monotonic();
  }

  stop(): void {
    this.#stop.abort();
  }

  async #run(): Promise<void> {
    const { clock, onIdle } = this.options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const left = this.#last + this.milliseconds - clock.monotonic();
      if (left <= 0) return onIdle();
      await clock.sleep(left, signal);
    }
  }
}
