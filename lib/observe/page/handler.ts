/**
 * Serves the status page and its JSON, and decides who may see them.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { isLoopback, parseAddress } from "../../model/values/address.ts";
import { plainData } from "../../model/values/text.ts";
import {
  type HttpAnswer,
  type HttpHandler,
  type HttpRequest,
  textAnswer,
} from "../../model/ports/http.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { hostOf, isLocalName } from "../local_names.ts";
import { type PageContents, pageData } from "./data.ts";
import PAGE from "./page.html" with { type: "text" };
import { readQuery } from "./services.ts";

/** `auto` serves the page if the server listens on loopback alone. */
export type PageSetting = "auto" | "on" | "off";

/** Options of the page's handler. */
export interface PageOptions {
  readonly setting: PageSetting;
  /** `address:port` of the server, as it is configured. */
  readonly bindAddress: string;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly contents: () => PageContents | Promise<PageContents>;
}

/** The path of the page's JSON. */
export const DATA_PATH = "/page.json";

/** Lets only the style and the script of the page itself run, and loads only its JSON. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src '${hashOf("style")}'`,
  `script-src '${hashOf("script")}'`,
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

function hashOf(tag: "style" | "script"): string {
  const [, text = ""] = PAGE.split(new RegExp(`</?${tag}>`));
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

const HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy": CONTENT_SECURITY_POLICY,
  "Cache-Control": "no-store",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};

/** Answers with the page or its JSON, or with 403 and a line that says how to switch the page on. */
export function pageHandler(options: PageOptions): HttpHandler {
  return async (request) => {
    const refusal = refusalOf(request, options);
    if (refusal !== undefined) return textAnswer(`${refusal}\n`, 403);
    if (request.path !== DATA_PATH) return answer("text/html; charset=utf-8", PAGE);
    const query = readQuery(request.search ?? "");
    const data = pageData(await options.contents(), query);
    const shown = plainData(await new Turns(options.clock).run(data));
    return answer("application/json", JSON.stringify(shown));
  };
}

function answer(type: string, body: string): HttpAnswer {
  return { status: 200, headers: { "Content-Type": type, ...HEADERS }, body };
}

function refusalOf(
  { host }: HttpRequest,
  { setting, bindAddress }: PageOptions,
): string | undefined {
  if (setting === "on") return undefined;
  if (setting === "off") return "The status page is off: see --status-page.";
  if (!isLoopbackHost(hostOf(bindAddress))) {
    return `The status page is off, for this server listens on ${bindAddress}, not on loopback alone: --status-page=on shows it to everyone who can connect.`;
  }
  if (!isLocalName(host)) {
    return "The status page is for http://localhost and addresses; for other names there is --status-page=on.";
  }
  return undefined;
}

function isLoopbackHost(host: string): boolean {
  const address = parseAddress(host);
  return address !== undefined && isLoopback(address);
}
