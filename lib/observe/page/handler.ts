/**
 * Who may see the status page, and with which headers it is sent.
 *
 * @module
 */
import { unbracketed } from "../../model/cluster/names.ts";
import { isLoopback, parseAddress } from "../../model/values/address.ts";
import { type HttpHandler, type HttpRequest, textAnswer } from "../../model/ports/http.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock } from "../../model/ports/ports.ts";
import { CONTENT_SECURITY_POLICY } from "./assets.ts";
import { type PageContents, statusPage } from "./page.ts";
import { readQuery } from "./search.ts";

/** `auto`: where the server listens on loopback alone. */
export type PageSetting = "auto" | "on" | "off";

/** What the page's handler needs. */
export interface PageOptions {
  readonly setting: PageSetting;
  /** `address:port` of the server, as it is configured. */
  readonly bindAddress: string;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly contents: () => PageContents | Promise<PageContents>;
}

const HEADERS: Readonly<Record<string, string>> = {
  "Content-Type": "text/html; charset=utf-8",
  "Content-Security-Policy": CONTENT_SECURITY_POLICY,
  "Cache-Control": "no-store",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};

/** Answers with the page, or with 403 and a line that says how to switch it on. */
export function pageHandler(options: PageOptions): HttpHandler {
  return async (request) => {
    const refusal = refusalOf(request, options);
    if (refusal !== undefined) return textAnswer(`${refusal}\n`, 403);
    const contents = await options.contents();
    const body = await new Turns(options.clock).run(
      statusPage(contents, readQuery(request.search ?? "")),
    );
    return { status: 200, headers: HEADERS, body };
  };
}

function refusalOf(
  { host = "" }: HttpRequest,
  { setting, bindAddress }: PageOptions,
): string | undefined {
  if (setting === "on") return undefined;
  if (setting === "off") return "The status page is off: see --status-page.";
  if (!isLoopbackHost(hostOf(bindAddress))) {
    return `The status page is off, for this server listens on ${bindAddress}, not on loopback alone: --status-page=on shows it to everyone who can connect.`;
  }
  // A page of another site that makes its own name lead here must not read this one.
  if (!isLocalName(hostOf(host))) {
    return "The status page is for http://localhost and addresses; for other names there is --status-page=on.";
  }
  return undefined;
}

/** The host of `host:port`, without the brackets of an IPv6 address. */
function hostOf(authority: string): string {
  return unbracketed(authority.replace(/:\d*$/, ""));
}

function isLoopbackHost(host: string): boolean {
  const address = parseAddress(host);
  return address !== undefined && isLoopback(address);
}

function isLocalName(host: string): boolean {
  return host === "" || host === "localhost" || parseAddress(host) !== undefined;
}
