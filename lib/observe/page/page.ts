/**
 * The status page: one document that needs nothing else. Pure: values in, text out.
 *
 * @module
 */
import type { ServiceConnections } from "../../model/connections.ts";
import type { DesiredState } from "../../model/kernel/desired.ts";
import type { Status } from "../../model/status.ts";
import type { SyncSpan } from "../sync_history.ts";
import { SCRIPT, STYLE } from "./assets.ts";
import { html } from "./html.ts";
import { loadOf } from "./load.ts";
import { type PageQuery, searchServices } from "./search.ts";
import { searchForm, serviceList } from "./services_section.ts";
import { pageHead, stateSections } from "./state_section.ts";

/** What the page shows. */
export interface PageContents {
  readonly status: Status;
  readonly services: DesiredState["services"];
  /** The connections of each Service, where they are counted. */
  readonly connections: Iterable<ServiceConnections>;
  /** The syncs of the last hour. */
  readonly spans: readonly SyncSpan[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The document. Yields between Services. */
export function* statusPage(
  contents: PageContents,
  query: PageQuery,
): Generator<undefined, string> {
  const { status, services, now } = contents;
  const load = yield* loadOf(contents.connections);
  const result = yield* searchServices(services, { query, load });
  const body = html`
    <!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>signpost on ${status.node}</title>
  `;
  const page = html`
    </head>
    <body>
    ${pageHead(status)}
    <main>${stateSections(status, contents)}
    <section><h2>Services</h2>${searchForm(result)}
    <p class="legend"><span><svg viewBox="0 0 12 12" aria-hidden="true"><circle class="here" cx="6" cy="6" r="5"/></svg> endpoint on this node</span>
    <span><svg viewBox="0 0 12 12" aria-hidden="true"><circle class="there" cx="6" cy="6" r="4.5"/></svg> endpoint on another node</span></p>
    ${serviceList(result, load)}</section></main>
    <footer>${new Date(now).toISOString()} <span id="live" class="badge" hidden></span></footer>
  `;
  // Style and script are this program's own, and their hashes are in the content security policy.
  return `${body}<style>${STYLE}</style>${page}<script>${SCRIPT}</script></body></html>\n`;
}
