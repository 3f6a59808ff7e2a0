/**
 * The part of the page that shows Services.
 *
 * @module
 */
import type { DesiredServicePort } from "../../model/kernel/desired.ts";
import { hostPort } from "../../model/cluster/names.ts";
import { usedEndpoints } from "../../model/kernel/port_endpoints.ts";
import { grouped } from "../../model/values/text.ts";
import { formatAge, formatRate } from "../human.ts";
import { type Html, html } from "./html.ts";
import type { Load, ServiceLoad } from "./load.ts";
import { type PageQuery, queryText, type SearchResult } from "./search.ts";
import { trafficPicture } from "./traffic_picture.ts";

/** The endpoints that are listed at most for one Service. */
const MOST_LISTED = 500;

/** The form by which Services are found. It works without JavaScript. */
export function searchForm({ query }: SearchResult): Html {
  const option = (value: PageQuery["sort"], text: string) =>
    query.sort === value
      ? html`<option value="${value}" selected>${text}</option>`
      : html`<option value="${value}">${text}</option>`;
  return html`<form method="get" action="/" role="search">
<input type="search" name="q" value="${query.words}" aria-label="Search Services"
 placeholder="Name, address, port or endpoint" maxlength="200">
<select name="sort" aria-label="Order">${option("name", "by name")}${
    option("connections", "busiest first")
  }</select>
<button type="submit">Search</button></form>`;
}

/** The Services that were found. */
export function serviceList(result: SearchResult, load: Load): Html {
  const { matches, services, query, pages, isCut } = result;
  const found = query.words === "" ? `${matches} Services` : `${matches} Services match`;
  return html`<div id="services">
<p class="soft">${found}${pages > 1 ? `, page ${query.page} of ${pages}` : ""}${
    isCut ? "; to find the others, search" : ""
  }</p>
${
    services.map(([name, ports], i) =>
      serviceArticle(name, { ports, load: load.get(name), index: i })
    )
  }
${pager(result)}</div>`;
}

function pager({ query, pages }: SearchResult): Html | undefined {
  if (pages === 1) return undefined;
  const link = (page: number, text: string) =>
    page < 1 || page > pages
      ? undefined
      : html`<a href="${queryText({ ...query, page })}">${text}</a>`;
  return html`<nav aria-label="Pages">${link(query.page - 1, "Previous")}${
    link(query.page + 1, "Next")
  }</nav>`;
}

function serviceArticle(
  name: string,
  { ports, load, index }: {
    readonly ports: readonly DesiredServicePort[];
    readonly load: ServiceLoad | undefined;
    readonly index: number;
  },
): Html {
  return html`
    <article><div class="title"><h3>${name}</h3>${badges(ports)}${load && loadText(load)}</div>
    ${trafficPicture(name, ports) ?? html`<p class="soft">It has no address on this node.</p>`}
    ${endpointList(ports, index)}</article>
  `;
}

/** Connections in a column at the right. */
function loadText({ connections, perSecond }: ServiceLoad): Html {
  return html`<span class="load"><b>${formatRate(perSecond)}</b>/s <span class="soft">${
    grouped(connections)
  } ${connections === 1 ? "connection" : "connections"}</span></span>`;
}

function badges(ports: readonly DesiredServicePort[]): Html[] {
  const found = new Map<string, string>();
  for (const port of ports) {
    if (port.affinitySeconds > 0) {
      found.set(`session affinity ${formatAge(port.affinitySeconds)}`, "");
    }
    if (port.scheduler) found.set(port.scheduler.type, "");
    if (port.internalTrafficPolicy === "Local") found.set("internal policy Local", "");
    if (port.externalTrafficPolicy === "Local") found.set("external policy Local", "");
    if (port.sourceRanges.length > 0) found.set("source ranges", "");
    if (!port.hasEndpoints) found.set("no endpoints", "bad");
  }
  return [...found].map(([text, tone]) => html`<span class="badge ${tone}">${text}</span>`);
}

/** Every endpoint by name: the picture has room for some. */
function endpointList(ports: readonly DesiredServicePort[], index: number): Html | undefined {
  const all = new Map(
    ports.flatMap((port) =>
      usedEndpoints(port).map((endpoint) => {
        const { name } = port;
        const place = hostPort(endpoint.address, endpoint.port);
        return [`${name} ${place}`, { name, place, isLocal: endpoint.local }] as const;
      })
    ),
  );
  if (all.size === 0) return undefined;
  const listed = [...all.values()].slice(0, MOST_LISTED);
  const left = all.size - listed.length;
  return html`
    <details id="endpoints-${index}">
      <summary>${all.size === 1 ? "1 endpoint" : `${all.size} endpoints`}</summary>
      <ul>${listed.map(({ name, place, isLocal }) =>
        html`<li>${place}<span class="soft"> ${afterColon(name)}${
          isLocal ? " on this node" : ""
        }</span></li>`
      )}${left > 0 ? html`<li class="soft">and ${left} more</li>` : undefined}</ul>
    </details>
  `;
}

function afterColon(name: string): string {
  const colon = name.indexOf(":");
  return colon < 0 ? "" : name.slice(colon + 1);
}
