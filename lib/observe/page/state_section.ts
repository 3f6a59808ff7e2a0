/**
 * The parts of the page that show how the daemon is.
 *
 * @module
 */
import type { Status } from "../../model/status.ts";
import {
  formatAge,
  formatAgo,
  formatDuration,
  formatLocalhost,
  formatSize,
  formatTakeOver,
  healthOf,
  minSyncPeriodOf,
  programOf,
} from "../human.ts";
import { redactSecrets } from "../log/redact.ts";
import type { SyncSpan } from "../sync_history.ts";
import { type Html, html, type HtmlValue } from "./html.ts";
import { latencyLegend, latencyPlot } from "./latency_plot.ts";

const SEVERITIES = { error: "bad", warning: "warn", info: "soft" } as const;

const TONES = { green: "good", yellow: "warn", red: "bad" } as const;

/** The head of the page: who this is, and how it is. */
export function pageHead(status: Status): Html {
  const { health, colour } = healthOf(status);
  return html`<header id="head"><h1>signpost on ${status.node}</h1>
<span class="badge ${TONES[colour]}">${health}</span>
<span class="soft">${status.version}${
    status.commit === "" ? "" : ` (${status.commit})`
  }</span></header>`;
}

/** Facts, syncs, watches, and what is wrong with objects. */
export function stateSections(
  status: Status,
  { spans, now }: { readonly spans: readonly SyncSpan[]; readonly now: number },
): Html {
  return html`<div id="state"><section><dl>${facts(status, now)}</dl></section>
${
    titled(
      "Findings",
      table(
        ["Severity", "Where", "What", "What to do"],
        status.findings.map(({ severity, where, what, remedy }) => [
          html`<span class="${SEVERITIES[severity]}">${severity}</span>`,
          where,
          what,
          remedy,
        ]),
      ),
    )
  }
<section><h2>Syncs</h2>${latencyPlot(spans)}${spans.length > 0 ? latencyLegend() : undefined}
${
    table(
      ["Kind", "When", "Took", "Operations", "Size"],
      status.syncs.map((sync) => [
        sync.kind,
        formatAgo(sync.at, now),
        formatDuration(sync.seconds),
        sync.operations,
        formatSize(sync.bytes),
      ]),
    )
  }</section>
${
    titled(
      "Watches",
      table(
        ["Kind", "State", "Resource version", "Last event", "Lists", "Last error"],
        status.watches.map((watch) => [
          watch.kind,
          html`<span class="${watch.state === "watching" ? "good" : "warn"}">${watch.state}</span>`,
          watch.resourceVersion,
          formatAgo(watch.lastEvent, now),
          watch.lists,
          redactSecrets(watch.lastError),
        ]),
      ),
    )
  }
${
    titled(
      "Refused objects",
      table(
        ["Kind", "Object", "Why"],
        status.refused.slice(0, MOST_ROWS).map(({ kind, key, reason }) => [kind, key, reason]),
      ),
    )
  }
${
    titled(
      "Conflicts",
      table(
        ["What", "Held by", "Wanted by", "Why"],
        status.conflicts.slice(0, MOST_ROWS).map((
          { claim, holder, loser, because },
        ) => [claim, holder, loser, because]),
      ),
    )
  }</div>`;
}

/** Rows of one table at most; `signpost status` lists all. */
const MOST_ROWS = 100;

function facts(status: Status, now: number): Html[] {
  const { snapshotAgeSeconds: age } = status;
  const list: readonly (readonly [string, HtmlValue, HtmlValue?])[] = [
    ["Mode", status.mode, programOf(status)],
    ["Kernel", status.kernel],
    ["Min sync period", minSyncPeriodOf(status)],
    ["Started", formatAgo(status.started, now)],
    ["Services", status.services, `${status.servicePorts} ports`],
    ["Endpoints", status.endpoints, `${status.endpointSlices} slices`],
    ["Refused objects", count(status.refused.length)],
    ["Conflicts", count(status.conflicts.length)],
    ["Drift repairs", status.driftRepairs],
    ...status.localhostNodePorts
      ? [["Node ports on localhost", formatLocalhost(status.localhostNodePorts)] as const]
      : [],
    ...(status.takeOver ? [["Take-over", formatTakeOver(status.takeOver)] as const] : []),
    ["State file", age === null ? "none" : `${formatAge(age)} old`],
  ];
  return list.map(([name, value, more]) =>
    html`
      <div>
        <dt>${name}</dt>
        <dd>${value}${more
          ? html`
            <small>${more}</small>
          `
          : undefined}</dd>
      </div>
    `
  );
}

function count(number: number): Html {
  return html`<span class="${number > 0 ? "warn" : ""}">${number}</span>`;
}

function titled(title: string, content: Html | undefined): Html | undefined {
  return content && html`<section><h2>${title}</h2>${content}</section>`;
}

/** Nothing where there are no rows. */
function table(head: readonly string[], rows: readonly (readonly HtmlValue[])[]): Html | undefined {
  if (rows.length === 0) return undefined;
  return html`
    <table>
      <thead>
        <tr>${head.map((cell) => html`<th>${cell}</th>`)}</tr>
      </thead>
      <tbody>${rows.map((row) =>
        html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`
      )}</tbody>
    </table>
  `;
}
