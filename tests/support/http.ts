/** HTTP requests from inside of a test network. */
import type { ConnectRequest, Network } from "./network.ts";

/** The answer of a server. */
export interface HttpResponse {
  readonly status: number;
  /** By name in small letters. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** Asks a server for a path. */
export async function httpGet(
  network: Network,
  request: Omit<ConnectRequest, "protocol" | "times"> & { readonly path: string },
): Promise<HttpResponse> {
  const { path, ...connection } = request;
  // A server answers HTTP/1.0 in one piece, and then ends the connection.
  const text = `GET ${path} HTTP/1.0\r\nHost: localhost\r\n\r\n`;
  return parseResponse(await network.request({ timeout: 10_000, ...connection }, text));
}

function parseResponse(text: string): HttpResponse {
  const end = text.indexOf("\r\n\r\n");
  const [first = "", ...lines] = text.slice(0, Math.max(0, end)).split("\r\n");
  const status = Number(/^HTTP\/1\.\d (\d{3})/.exec(first)?.[1]);
  if (!status) throw new Error(`this is no HTTP response: ${JSON.stringify(text.slice(0, 100))}`);
  const headers = lines.map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
  });
  return { status, headers: new Map(headers), body: text.slice(end + 4) };
}
