/** Adapter: reads and writes heads of HTTP/1 messages (RFC 9112). A head with two meanings is refused. */
import type { HttpAnswer, HttpRequest } from "../model/ports/http.ts";

/** The limit of a request's head in bytes. Probes send 200, and browsers 1,000 and their cookies. */
export const MOST_HEAD = 8_192;

const REQUEST_LINE =
  /^([A-Z]{1,20}) (?:http:\/\/([^/?\s]+))?(\/[!->@-~]*)(\?[!-~]*)? HTTP\/1\.([01])$/;
/** Matches a field. The value has its blanks: to match them apart takes a time cubic in their number. */
const FIELD = /^([!#$%&'*+.^_`|~\w-]+):([\t -~\x80-\xff]*)$/;
const HOST = /^[\w.:[\]-]*$/;

/** The fields that may not come twice with different values, because they decide what a request means. */
const SINGLE: ReadonlySet<string> = new Set(["host", "content-length", "transfer-encoding"]);

export interface RequestHead extends HttpRequest {
  /** The digit after `HTTP/1.`. */
  readonly minor: string;
  /** True if it is the connection's last request: the client says so, or sends a body, which is not read. */
  readonly isLast: boolean;
}

/**
 * Returns the bytes of the first head, with the blank line at its end; `undefined` if it is not complete. A line may
 * end with LF alone, as in Go.
 */
export function headLength(bytes: Uint8Array): number | undefined {
  for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) {
    if (bytes[at - (bytes[at - 1] === 13 ? 2 : 1)] === 10) return at + 1;
  }
  return undefined;
}

/** Returns the request of a head, or `undefined` if the head is not valid. @param text one character for each byte */
export function parseHead(text: string): RequestHead | undefined {
  const [first = "", ...lines] = text.split(/\r?\n/).slice(0, -2);
  const [, method, authority, path, search, minor] = REQUEST_LINE.exec(first) ?? [];
  if (method === undefined || path === undefined || minor === undefined) return undefined;
  const fields = new Map<string, string>();
  for (const line of lines) {
    const [, name, value] = FIELD.exec(line) ?? [];
    if (name === undefined || value === undefined) return undefined;
    const key = name.toLowerCase();
    if (SINGLE.has(key) && fields.has(key)) return undefined;
    // `trim` would remove the byte A0, which is not a blank here.
    fields.set(key, value.replaceAll("\xa0", "?").trim());
  }
  const host = authority ?? fields.get("host");
  const [length, coding] = [fields.get("content-length"), fields.get("transfer-encoding")];
  if (minor === "1" && !fields.has("host") || host !== undefined && !HOST.test(host)) {
    return undefined;
  }
  if (length !== undefined && (coding !== undefined || !/^\d+$/.test(length))) return undefined;
  const hasBody = coding !== undefined || Number(length ?? 0) > 0;
  return {
    method,
    path,
    search: search ?? "",
    ...host !== undefined && { host },
    minor,
    isLast: minor === "0" || hasBody || /\bclose\b/i.test(fields.get("connection") ?? ""),
  };
}

const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

/** Returns the head of an answer. @param options.length the bytes of the body */
export function formatHead(
  { status, headers }: Pick<HttpAnswer, "status" | "headers">,
  { length, minor, isLast }: Pick<RequestHead, "minor" | "isLast"> & { readonly length: number },
): string {
  const fields = {
    ...headers,
    "Content-Length": String(length),
    Date: new Date().toUTCString(),
    ...isLast && { Connection: "close" },
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return `HTTP/1.${minor} ${status} ${REASONS[status] ?? ""}\r\n${lines}\r\n`;
}
