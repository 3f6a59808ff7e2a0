/** Answers HTTP requests of health checks and metrics, without sockets. */
import type { Family } from "../values/address.ts";

export interface HttpRequest {
  readonly method: string;
  /** The path without its query, as the client wrote it. */
  readonly path: string;
  readonly search?: string;
  /** The Host header as the client wrote it; absent if unknown. */
  readonly host?: string;
  /** The client's IP family; absent means the family of the listener's address. */
  readonly family?: Family;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type HttpHandler = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

export interface ListenAddress {
  /** A canonical address; `::` means all addresses of both families, `0.0.0.0` all IPv4 addresses. */
  readonly hostname: string;
  readonly port: number;
}

export interface HttpListener {
  readonly port: number;
  close(): Promise<void>;
}

/** Starts to listen. @throws if the address is in use, not on this node, or not permitted */
export type HttpListen = (address: ListenAddress, handler: HttpHandler) => HttpListener;

const NO_SNIFF = { "X-Content-Type-Options": "nosniff" } as const;

export function textAnswer(body: string, status = 200): HttpAnswer {
  return { status, headers: { "Content-Type": "text/plain; charset=utf-8", ...NO_SNIFF }, body };
}

export function jsonAnswer(body: string, status = 200): HttpAnswer {
  return { status, headers: { "Content-Type": "application/json", ...NO_SNIFF }, body };
}

/** Passes GET and HEAD to the handler. Every other method gets 405. */
export function readOnly(handler: HttpHandler): HttpHandler {
  return (request) => {
    if (request.method === "GET" || request.method === "HEAD") return handler(request);
    const answer = textAnswer("only GET and HEAD are allowed here\n", 405);
    return { ...answer, headers: { ...answer.headers, Allow: "GET, HEAD" } };
  };
}

/** Chooses the handler by the exact path. Every other path gets 404. */
export function routePaths(handlers: ReadonlyMap<string, HttpHandler>): HttpHandler {
  return readOnly((request) =>
    handlers.get(request.path)?.(request) ?? textAnswer("404 page not found\n", 404)
  );
}
