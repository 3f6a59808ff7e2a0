/**
 * How long syncs took in the last hour, as a picture.
 *
 * @module
 */
import { formatDuration } from "../human.ts";
import { HISTORY_SECONDS, type SyncSpan } from "../sync_history.ts";
import { type Html, html } from "./html.ts";

/** Places in the picture, in its own units. */
const WIDTH = 1040;
const HEIGHT = 200;
const LEFT = 52;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 24;

/** Minutes before now that have a line. */
const MINUTES: readonly number[] = [60, 45, 30, 15, 0];

/** Plots spans over the last hour, on a logarithmic scale of seconds. */
export function latencyPlot(spans: readonly SyncSpan[]): Html {
  const label = "Duration of syncs in the last hour";
  if (spans.length === 0) return html`<p class="soft">There was no sync in the last hour.</p>`;
  const low = Math.floor(
    Math.log10(Math.max(1e-5, spans.reduce((low, { least }) => Math.min(low, least), Infinity))),
  );
  const high = Math.max(
    low + 1,
    Math.ceil(Math.log10(spans.reduce((high, { most }) => Math.max(high, most), 1e-5))),
  );
  const y = (seconds: number) => {
    const place = (Math.log10(Math.max(1e-5, seconds)) - low) / (high - low);
    return round(HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM));
  };
  const x = (age: number) =>
    round(WIDTH - RIGHT - (age / HISTORY_SECONDS) * (WIDTH - LEFT - RIGHT));
  const decades = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i));
  return html`
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img"
      aria-label="${label}">${decades.map((seconds) =>
        html`
          <path class="grid" d="M${LEFT} ${y(seconds)}H${WIDTH - RIGHT}" />
          <text class="small" x="${LEFT - 8}" y="${y(seconds) + 4}" text-anchor="end">${decadeText(
            seconds,
          )}</text>
        `
      )}${MINUTES.map((minutes) =>
        html`
          <path class="grid" d="M${x(minutes * 60)} ${TOP}V${HEIGHT - BOTTOM + 4}" />
          <text class="small" x="${x(minutes * 60)}" y="${HEIGHT - 6}" text-anchor="${minutes === 0
            ? "end"
            : "middle"}">${minutes === 0 ? "now" : `−${minutes} min`}</text>
        `
      )}${spans.map((span) => drawSpan(span, { x: x(span.age), y }))}</svg>
  `;
}

/** The plot's signs. */
export function latencyLegend(): Html {
  return html`
    <p
      class="legend"><span><svg viewBox="0 0 12 12" aria-hidden="true"><circle class="partial" cx="6" cy="6" r="3"/></svg> partial syncs: mean, and range, of half a minute</span><span><svg viewBox="0 0 12 12" aria-hidden="true"><path class="full" d="M6 1l5 5l-5 5l-5 -5z"/></svg> full syncs</span></p>
  `;
}

function drawSpan(
  { kind, count, least, mean, most }: SyncSpan,
  { x, y }: { readonly x: number; readonly y: (seconds: number) => number },
): Html {
  const words = count === 1
    ? `a ${kind} sync: ${formatDuration(mean)}`
    : `${count} ${kind} syncs: ${formatDuration(least)} to ${formatDuration(most)}, mean ${
      formatDuration(mean)
    }`;
  const sign = kind === "full"
    ? html`
      <path class="full" d="M${x} ${y(mean) - 5}l5 5l-5 5l-5 -5z" />
    `
    : html`
      <circle class="partial" cx="${x}" cy="${y(mean)}" r="2.5" />
    `;
  return html`<g><title>${words}</title><path class="range ${kind}" d="M${x} ${y(least)}V${
    y(most)
  }"/>${sign}</g>`;
}

function decadeText(seconds: number): string {
  return seconds >= 1 ? `${seconds} s` : `${Number((seconds * 1000).toPrecision(1))} ms`;
}

function round(place: number): number {
  return Math.round(place * 10) / 10;
}
