/**
 * The port through which HTTP requests leave. Its adapters are `fetch_http.ts` and `node_http.ts`.
 *
 * @module
 */
import type { TlsSettings } from "../access/access.ts";

/** One request. */
export interface HttpRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Used for `https:` URLs. */
  readonly tls: TlsSettings;
  /** Ends the request, at any stage; what waits for it then rejects. */
  readonly signal: AbortSignal;
}

/** An answer whose headers are in. */
export interface HttpResponse {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** The body as it comes. Read to the end or abort the request, else the connection lingers. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** Sends HTTP requests; keeps connections for reuse where it can. */
export interface HttpClient {
  /** Resolves when the headers are in; rejects with the system's error, or when aborted. */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Closes idle connections. */
  close(): void;
}
