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
import { isApiObject, parseJson, readApiObject, Remainder } from "./watch_events.ts";
import { fieldAt, jsonIn } from "../../model/values/record.ts";
import { errorText, oneLine } from "../../model/values/text.ts";

/** One request of the port for outgoing HTTP. Its adapters are in `system/http_client.ts`. */
export interface OutgoingRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly tls: TlsSettings;
  /** Ends the request at any stage. Pending promises reject. */
  readonly signal: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** The streamed body. Read it to its end or abort the request, else the connection stays open. */
  readonly body: AsyncIterable<Uint8Array>;
}

export interface HttpClient {
  /** Resolves after the headers. Rejects with the system's error, or when aborted. */
  request(request: OutgoingRequest): Promise<HttpResponse>;
  /** Closes idle connections after a silence. The next request opens a new one, to an address that answers. */
  close(): void;
}

/** One request to the API server, as in client-go's `rest_client_*` metrics. */
export interface RequestResult {
  readonly verb: string;
  readonly host: string;
  /** The HTTP status as text, or `<error>` without an answer. */
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

/** Counts requests. Its functions must be quick and must not throw. */
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
  readonly method?: OutgoingRequest["method"];
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The `accept` header, `application/json` by default. */
  readonly accept?: string;
  readonly signal: AbortSignal;
  /** Milliseconds for the headers, and then for the body, or until `renew`; 60 s by default and at most. */
  readonly silence?: number;
}

interface ApiStream {
  readonly status: number;
  /** The `content-type` header; `""` if it is absent. */
  readonly contentType: string;
  /** Throws a `WatchError` if the stream breaks off or stalls. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Starts the time limit of the body again. Bytes alone do not: a slow server must not hold a request. */
  renew(): void;
  close(): void;
}

/** The API server's own limit for a request. */
const LONGEST_SILENCE = 60_000;

/** The longest body read as a whole, in bytes: a page of 500 objects. */
const MAX_BODY = 64 * 1024 * 1024;

/** The longest body of an error that is read, in bytes. */
const MAX_ERROR_BODY = 64 * 1024;

/** client-go's code for a request without an answer. */
const NO_ANSWER = "<error>";

export class ApiClient {
  observer: RequestObserver = {};
  /** The code of the last GET by path, if it failed: the next GET is a retry. */
  readonly #failed = new Map<string, string>();

  constructor(private readonly options: ApiClientOptions) {}

  /** Sends a request and waits for the headers. @throws {WatchError} without an answer, or if its status is not 2xx */
  async open(path: string, request: ApiRequest): Promise<ApiStream> {
    const { clock, http } = this.options;
    const exchange = new Exchange(clock, request);
    // Idle connections may be as dead as the silent one.
    exchange.onSilence = () => http.close();
    try {
      const response = await this.#send(path, request, exchange);
      const { status } = response;
      if (status < 200 || status >= 300) {
        const message = await readErrorText(exchange.read(response));
        const retryAfter = parseRetryAfter(response.headers["retry-after"]);
        throw new StatusError(
          `${describeRequest(path, request)}: ${status}${message}`,
          status,
          retryAfter,
        );
      }
      return {
        status,
        contentType: response.headers["content-type"] ?? "",
        body: exchange.read(response),
        renew: () => exchange.renew(),
        close: () => exchange.close(),
      };
    } catch (error) {
      exchange.close();
      throw exchange.explain(error, "connection");
    }
  }

  /** Sends a request and reads the answer as JSON. @throws {WatchError} as `open`, or if the body is late or not JSON */
  async json(path: string, request: ApiRequest): Promise<unknown> {
    const stream = await this.open(path, request);
    try {
      return parseJson(decodeText(await readBytes(stream.body, MAX_BODY)));
    } catch (cause) {
      if (cause instanceof WatchError) {
        if (cause.reason !== "stalled") throw cause;
        throw new WatchError("late", cause.message, { cause });
      }
      const message = `${describeRequest(path, request)}: the answer is not valid UTF-8`;
      throw new WatchError("garbage", message, { cause });
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

  async #send(path: string, request: ApiRequest, exchange: Exchange): Promise<HttpResponse> {
    const { method = "GET", accept = "application/json", query = {} } = request;
    const { server, authorization, tls } = await this.#credentials();
    const url = requestUrl(server, path, query);
    const hasBody = request.body !== undefined;
    if (!url.searchParams.has("watch")) {
      exchange.onEnd = (size) =>
        this.observer.responseRead?.({ verb: method, host: url.host, size });
    }
    return await this.#exchange({
      method,
      url,
      headers: {
        accept,
        "user-agent": this.options.userAgent,
        ...(authorization && { authorization }),
        ...(hasBody && { "content-type": "application/json" }),
      },
      ...(hasBody && { body: JSON.stringify(request.body) }),
      tls,
      signal: exchange.signal,
    });
  }

  /** Sends a request, and reports it as client-go counts it. */
  async #exchange(request: OutgoingRequest): Promise<HttpResponse> {
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

/** Limits the time of a request, and classifies its failure. */
class Exchange {
  readonly #abort = new AbortController();
  readonly signal = this.#abort.signal;
  /** Called with the size of the body in bytes, when it has ended or was given up. */
  onEnd: (size: number) => void = () => {};
  /** Called when the server has not answered in time. */
  onSilence: () => void = () => {};
  readonly #onAbort = () => this.#abort.abort();
  readonly #limit: number;
  /** The monotonic time at which the present limit began. */
  #renewed: number;
  #isSilent = false;

  constructor(private readonly clock: Clock, private readonly request: ApiRequest) {
    const { signal, silence = LONGEST_SILENCE } = request;
    if (signal.aborted) this.#abort.abort();
    signal.addEventListener("abort", this.#onAbort, { once: true });
    this.#limit = Math.min(silence, LONGEST_SILENCE);
    this.#renewed = clock.monotonic();
    void this.#limitSilence();
  }

  async #limitSilence(): Promise<void> {
    while (!this.signal.aborted) {
      const left = this.#renewed + this.#limit - this.clock.monotonic();
      if (left > 0) await this.clock.sleep(left, this.signal);
      else {
        this.#isSilent = true;
        this.onSilence();
        this.close();
      }
    }
  }

  renew(): void {
    this.#renewed = this.clock.monotonic();
  }

  close(): void {
    this.request.signal.removeEventListener("abort", this.#onAbort);
    this.#abort.abort();
  }

  async *read(response: HttpResponse): AsyncGenerator<Uint8Array> {
    this.renew();
    let size = 0;
    try {
      for await (const chunk of response.body) {
        size += chunk.length;
        yield chunk;
      }
    } catch (error) {
      throw this.explain(error, "dropped");
    } finally {
      this.onEnd(size);
    }
    // An aborted body may end without an error.
    if (this.#isSilent) throw this.explain(undefined, "dropped");
  }

  /** Classifies the system's error: ended by the caller, by a limit, or by the network. */
  explain(cause: unknown, reason: "connection" | "dropped"): unknown {
    if (cause instanceof WatchError) return cause;
    if (this.#isSilent) {
      const message = `the API server did not answer within ${this.#limit / 1000} s`;
      return new WatchError("stalled", message, { cause });
    }
    const what = reason === "dropped" ? "the answer broke off" : "no connection to the API server";
    const text = errorText(cause).replace(
      UNKNOWN_ISSUER,
      "certificate signed by unknown authority",
    );
    return new WatchError(reason, `${what}: ${text}`, { cause });
  }
}

/** Matches the error of Deno's TLS for an unknown authority. It is printed in the words of other tools. */
const UNKNOWN_ISSUER = /^.*invalid peer certificate: UnknownIssuer.*$/;

function requestUrl(server: URL, path: string, query: Readonly<Record<string, string>>): URL {
  const url = new URL(server);
  url.pathname = url.pathname.replace(/\/+$/, "") + path;
  url.search = new URLSearchParams(query).toString();
  return url;
}

function describeRequest(path: string, request: ApiRequest): string {
  return `${request.method ?? "GET"} ${oneLine(path)}`;
}

/** Returns the message of an error's body after a blank; `""` without a message. */
async function readErrorText(body: AsyncIterable<Uint8Array>): Promise<string> {
  try {
    const message = statusMessage(await readBytes(body, MAX_ERROR_BODY));
    return message === "" ? "" : ` ${message}`;
  } catch {
    // The status is enough.
    return "";
  }
}

/** Returns the `message` of a `Status` object, or the text itself. */
function statusMessage(bytes: Uint8Array): string {
  if (isApiObject(bytes)) return oneLine(String(readApiObject(bytes)["message"] ?? ""));
  const body = decodeText(bytes);
  const message = fieldAt(jsonIn(body), "message");
  // The text may be a load balancer's page.
  return message === undefined ? oneLine(body, 80) : oneLine(String(message));
}

/** Reads seconds only: the date form needs a correct wall clock. */
function parseRetryAfter(header = ""): number {
  return /^\d{1,6}$/.test(header) ? Number(header) * 1000 : 0;
}

async function readBytes(body: AsyncIterable<Uint8Array>, limit: number): Promise<Uint8Array> {
  const read = new Remainder();
  for await (const chunk of body) {
    read.keep(chunk);
    if (read.length <= limit) continue;
    throw new WatchError("too-large", `the answer is longer than ${limit} bytes`);
  }
  return read.join(new Uint8Array());
}

function decodeText(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}
