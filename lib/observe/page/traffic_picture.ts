/**
 * A small picture of where a Service's traffic goes.
 *
 * @module
 */
import type { DesiredServicePort, Destination } from "../../model/kernel/desired.ts";
import { hostPort } from "../../model/cluster/names.ts";
import { type Html, html } from "./html.ts";
import { type NamedFrontend, type Route, routesOf } from "./traffic.ts";

/** Places in the picture, in its own units. */
const WIDTH = 760;
const ROW = 26;
const BOX_WIDTH = 290;
const HUB = 400;
const ENDPOINTS = 490;

/** What is drawn at most; the rest is counted. */
const MOST_LANES = 6;
const MOST_FRONTENDS = 6;
const MOST_ENDPOINTS = 8;

/** The letters that have room beside a dot, or in a box. */
const LETTERS = 38;

/** A frontend with no more letters than this has room for its kind. */
const ROOM_FOR_KIND = 26;

/** One route with its place. */
interface Lane {
  readonly route: Route;
  readonly top: number;
  readonly height: number;
}

/** The picture of all service ports of a Service; `undefined`: it has no address. */
export function trafficPicture(
  name: string,
  ports: readonly DesiredServicePort[],
): Html | undefined {
  const routes = ports.flatMap(routesOf);
  if (routes.length === 0) return undefined;
  const lanes: Lane[] = [];
  let top = 4;
  for (const route of routes.slice(0, MOST_LANES)) {
    const rows = Math.max(
      capped(route.frontends, MOST_FRONTENDS).length,
      capped(route.endpoints, MOST_ENDPOINTS).length,
    );
    lanes.push({ route, top, height: rows * ROW });
    top += rows * ROW + 14;
  }
  const left = routes.length - lanes.length;
  const height = top + (left > 0 ? 18 : 0);
  const label = `Where the traffic of ${name} goes`;
  return html`
    <svg class="traffic" viewBox="0 0 ${WIDTH} ${height}" role="img"
      aria-label="${label}">${lanes.map(drawLane)}${left > 0
        ? html`<text class="small" x="4" y="${height - 4}">and ${left} more</text>`
        : undefined}</svg>
  `;
}

function drawLane({ route, top, height }: Lane): Html {
  const middle = top + height / 2;
  const stop = route.refusal === "" ? "" : " stop";
  const places = <T>(list: readonly T[]) =>
    list.map((item, i) => ({ item, y: top + (height * (i + 0.5)) / list.length }));
  const frontends = places(capped(route.frontends, MOST_FRONTENDS));
  const endpoints = places(capped(route.endpoints, MOST_ENDPOINTS));
  return html`<g>${
    frontends.map(({ y }) => wire({ x: BOX_WIDTH, y }, { x: HUB, y: middle }, stop))
  }${endpoints.map(({ y }) => wire({ x: HUB, y: middle }, { x: ENDPOINTS, y }, ""))}${
    frontends.map(({ item, y }) => drawFrontend(item, y))
  }${drawHub(route, middle, stop)}${endpoints.map(({ item, y }) => drawEndpoint(item, y))}</g>`;
}

/** The first items of a list; a number in the place of those that have no room. */
function capped<T>(list: readonly T[], most: number): readonly (T | number)[] {
  return list.length <= most ? list : [...list.slice(0, most - 1), list.length - most + 1];
}

interface Point {
  readonly x: number;
  readonly y: number;
}

function wire(from: Point, to: Point, stop: string): Html {
  const bend = (from.x + to.x) / 2;
  const path = `M${from.x} ${from.y}C${bend} ${from.y} ${bend} ${to.y} ${to.x} ${to.y}`;
  return html`
    <path class="wire${stop}" d="${path}" />
  `;
}

function drawFrontend(frontend: NamedFrontend | number, y: number): Html {
  if (typeof frontend === "number") return note(`and ${frontend} more`, { x: 8, y });
  const { text, kind } = frontend;
  return html`
    <g>
      <title>${kind} ${text}</title>
      <rect class="box" x="1" y="${y - 10}" width="${BOX_WIDTH - 1}" height="20" rx="5" />
      <text x="8" y="${y + 4}">${shorten(text)}</text>${text.length > ROOM_FOR_KIND
        ? undefined
        : html`<text class="small" x="${BOX_WIDTH - 8}" y="${
          y + 4
        }" text-anchor="end">${kind}</text>`}
    </g>
  `;
}

function drawHub({ policy, endpoints, refusal }: Route, y: number, stop: string): Html {
  const count = endpoints.length;
  const words = refusal === ""
    ? `${policy} policy: one of ${count}`
    : `${policy} policy: no endpoint, ${refusal}`;
  return html`<g><title>${words}</title><circle class="hub${stop}" cx="${HUB}" cy="${y}" r="10"/>${
    refusal === ""
      ? html`<text x="${HUB}" y="${y + 4}" text-anchor="middle">${count > 99 ? "…" : count}</text>`
      : html`
        <path class="cross" d="M${HUB - 4} ${y - 4}l8 8m0 -8l-8 8" />
        <text class="stopped" x="${HUB + 18}" y="${y + 4}">${refusal}</text>
      `
  }${
    policy === "Local"
      ? html`<text class="small" x="${HUB}" y="${y - 14}" text-anchor="middle">Local</text>`
      : undefined
  }</g>`;
}

function drawEndpoint(endpoint: Destination | number, y: number): Html {
  if (typeof endpoint === "number") return note(`and ${endpoint} more`, { x: ENDPOINTS, y });
  const text = hostPort(endpoint.address, endpoint.port);
  const where = endpoint.local ? "on this node" : "on another node";
  return html`
    <g>
      <title>${text} ${where}</title>
      <circle class="${endpoint.local ? "here" : "there"}" cx="${ENDPOINTS}" cy="${y}" r="5" />
      <text x="${ENDPOINTS + 12}" y="${y + 4}">${shorten(text)}</text>
    </g>
  `;
}

function note(text: string, { x, y }: Point): Html {
  return html`<text class="small" x="${x}" y="${y + 4}">${text}</text>`;
}

/** Takes letters out of the middle, where long addresses are alike. */
function shorten(text: string): string {
  if (text.length <= LETTERS) return text;
  const half = Math.floor((LETTERS - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}
