/**
 * The head of an HTTP/1 request (RFC 9112): as much of it as health checks and scrapes use. What
 * could be understood in two ways is refused.
 *
 * @module
 */
import type { HttpRequest } from "./http.ts";

/** What the head says. */
export interface RequestHead {
  readonly request: HttpRequest;
  /** A body follows. */
  readonly hasBody: boolean;
  /** The client waits for another answer on this connection. */
  readonly keepAlive: boolean;
}

/** A head that is not answered by a handler. */
export interface RefusedHead {
  /** HTTP status. */
  readonly status: 400 | 505;
}

const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~\w]{1,32}) ([!-~]+) HTTP\/(\d)\.(\d)$/;
/** Spaces around the value are left to `withoutSpaces`: here, many of them would take hours. */
const FIELD = /^([!#$%&'*+\-.^_`|~\w]+):([\t -~\x80-\xff]*)$/;
const REFUSED: RefusedHead = { status: 400 };

/**
 * Reads a head.
 *
 * @param text everything before the empty line, one character for each byte
 */
export function parseHead(text: string): RequestHead | RefusedHead {
  const [requestLine = "", ...lines] = text.split("\r\n");
  const [, method, target, major, minor] = REQUEST_LINE.exec(requestLine) ?? [];
  if (method === undefined || target === undefined) return REFUSED;
  if (major !== "1") return { status: 505 };
  const fields = new Map<string, string[]>();
  for (const line of lines) {
    const [, name, value] = FIELD.exec(line) ?? [];
    if (name === undefined || value === undefined) return REFUSED;
    const key = name.toLowerCase();
    fields.set(key, [...fields.get(key) ?? [], withoutSpaces(value)]);
  }
  const hosts = fields.get("host") ?? [];
  if (hosts.length > 1 || hosts.length === 0 && minor !== "0") return REFUSED;
  const url = parseTarget(target, hosts[0] ?? "");
  if (!url) return REFUSED;
  const lengths = fields.get("content-length") ?? [];
  const connection = (fields.get("connection") ?? []).join().toLowerCase();
  return {
    request: { method, ...url },
    hasBody: fields.has("transfer-encoding") || lengths.some((length) => length !== "0"),
    keepAlive: minor !== "0" && !/\bclose\b/.test(connection),
  };
}

/** Without the spaces and tabs around it; other white space is a part of the value. */
function withoutSpaces(value: string): string {
  const isSpace = (at: number) => value[at] === " " || value[at] === "\t";
  let [start, end] = [0, value.length];
  while (start < end && isSpace(start)) start++;
  while (start < end && isSpace(end - 1)) end--;
  return value.slice(start, end);
}

/** A path, or a full URL, whose host counts then. */
function parseTarget(
  target: string,
  host: string,
): Pick<HttpRequest, "path" | "search" | "host"> | undefined {
  const isPath = target.startsWith("/");
  if (!isPath && !/^http:\/\//i.test(target)) return undefined;
  try {
    const url = new URL(isPath ? `http://localhost${target}` : target);
    return { path: url.pathname, search: url.search, host: isPath ? host : url.host };
  } catch {
    return undefined;
  }
}
