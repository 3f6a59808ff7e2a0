/**
 * HTTP in the little that health and metrics need: a request in, an answer out, no sockets.
 *
 * @module
 */

import type { Family } from "../values/address.ts";

/** What of a request matters here. */
export interface HttpRequest {
  readonly method: string;
  /** The path without its query, as the client wrote it. */
  readonly path: string;
  /** The query with its question mark; without it, none. */
  readonly search?: string;
  /** The host that the client asked for, with the port as it wrote it; without it, unknown. */
  readonly host?: string;
  /** The family that the client uses; without it, that of the listener's address. */
  readonly family?: Family;
}

/** A complete answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Answers one request. */
export type HttpHandler = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

/** Where to listen; port 0: any free port. */
export interface ListenAddress {
  /** Canonical address; `0.0.0.0` and `::` are all addresses of both families, as in Go. */
  readonly hostname: string;
  readonly port: number;
}

/** A running listener. */
export interface HttpListener {
  /** The port that it got. */
  readonly port: number;
  /** Resolves when it has ended, by `close` or by itself. */
  readonly finished: Promise<void>;
  /** Ends it and all its connections. */
  close(): Promise<void>;
}

/**
 * Starts to listen.
 *
 * @throws where the address is in use, not of this node, or may not be bound
 */
export type HttpListen = (address: ListenAddress, handler: HttpHandler) => HttpListener;

const NO_SNIFF = { "X-Content-Type-Options": "nosniff" } as const;

/** An answer of plain text. */
export function textAnswer(body: string, status = 200): HttpAnswer {
  return { status, headers: { "Content-Type": "text/plain; charset=utf-8", ...NO_SNIFF }, body };
}

/** An answer whose body is JSON already. */
export function jsonAnswer(body: string, status = 200): HttpAnswer {
  return { status, headers: { "Content-Type": "application/json", ...NO_SNIFF }, body };
}

/** Lets GET and HEAD through to the handler; every other method gets 405. */
export function readOnly(handler: HttpHandler): HttpHandler {
  return (request) => {
    if (request.method === "GET" || request.method === "HEAD") return handler(request);
    const answer = textAnswer("only GET and HEAD are allowed here\n", 405);
    return { ...answer, headers: { ...answer.headers, Allow: "GET, HEAD" } };
  };
}

/**
 * Chooses the handler by the exact path; every other path gets 404.
 *
 * @param handlers by path, for example `/healthz`
 */
export function routePaths(handlers: ReadonlyMap<string, HttpHandler>): HttpHandler {
  return readOnly((request) =>
    handlers.get(request.path)?.(request) ?? textAnswer("404 page not found\n", 404)
  );
}
