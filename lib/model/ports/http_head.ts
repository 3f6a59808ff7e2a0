/**
 * Parses the head of an HTTP/1 request (RFC 9112), as far as health checks and scrapes use it.
 * Ambiguous heads are refused.
 *
 * @module
 */
import type { HttpRequest } from "./http.ts";

/** A parsed head. */
export interface RequestHead {
  readonly request: HttpRequest;
  /** True if a body follows. */
  readonly hasBody: boolean;
  /** True if the client expects another answer on this connection. */
  readonly keepAlive: boolean;
}

/** A head that gets an error status. */
export interface RefusedHead {
  /** HTTP status. */
  readonly status: 400 | 505;
}

const REQUEST_LINE = /^([!#$%&'*+\-.^_`|~\w]{1,32}) ([!-~]+) HTTP\/(\d)\.(\d)$/;
/** The value keeps its outer spaces: a pattern that strips them takes quadratic time. */
const FIELD = /^([!#$%&'*+\-.^_`|~\w]+):([\t -~\x80-\xff]*)$/;
const REFUSED: RefusedHead = { status: 400 };

/**
 * Parses a head.
 *
 * @param text everything before the empty line, one character a byte
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

/** Strips spaces and tabs. Other white space belongs to the value. */
function withoutSpaces(value: string): string {
  const isSpace = (at: number) => value[at] === " " || value[at] === "\t";
  let [start, end] = [0, value.length];
  while (start < end && isSpace(start)) start++;
  while (start < end && isSpace(end - 1)) end--;
  return value.slice(start, end);
}

/** Parses a path, or a full URL, whose host then counts. */
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
