/**
 * The port for outgoing HTTP requests. Its adapters are `fetch_http.ts` and `node_http.ts`.
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

/** Sends HTTP requests and reuses connections if possible. */
export interface HttpClient {
  /** Resolves after the headers. Rejects with the system's error, or when aborted. */
  request(request: HttpRequest): Promise<HttpResponse>;
  /** Closes idle connections. */
  close(): void;
}
