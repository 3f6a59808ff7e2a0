/**
 * Which Services the page shows.
 *
 * @module
 */
import type { DesiredServicePort, DesiredState } from "../../model/kernel/desired.ts";
import { busiestFirst, type Load } from "./load.ts";
import { Foremost } from "../../model/values/foremost.ts";
import { frontendsOf } from "../../policy/frontend.ts";
import { hostPort } from "../../model/cluster/names.ts";
import { usedEndpoints } from "../../model/kernel/port_endpoints.ts";

/** What the reader asked for. */
export interface PageQuery {
  /** Words that a Service must all have somewhere; `""`: every Service. */
  readonly words: string;
  /** From 1. */
  readonly page: number;
  /** What comes first. */
  readonly sort: "name" | "connections";
}

/** One page of the Services that match. */
export interface SearchResult {
  readonly query: PageQuery;
  /** Services that match, on all pages. */
  readonly matches: number;
  readonly pages: number;
  /** More match than the pages have room for. */
  readonly isCut: boolean;
  readonly services: readonly (readonly [name: string, ports: readonly DesiredServicePort[]])[];
}

const LONGEST = 200;
const PER_PAGE = 20;
/** Pages that can be leafed through; sorting more takes the event loop for too long. */
const MOST_PAGES = 500;

/** Reads the part of a URL behind the question mark; what is wrong there is left out. */
export function readQuery(search: string): PageQuery {
  const parameters = new URLSearchParams(search);
  const page = Number(parameters.get("page") ?? 1);
  return {
    words: (parameters.get("q") ?? "").slice(0, LONGEST).trim(),
    page: Number.isSafeInteger(page) && page > 0 ? page : 1,
    sort: parameters.get("sort") === "connections" ? "connections" : "name",
  };
}

/** The other way round. */
export function queryText({ words, page, sort }: PageQuery): string {
  const parameters = new URLSearchParams();
  if (words !== "") parameters.set("q", words);
  if (sort !== "name") parameters.set("sort", sort);
  if (page > 1) parameters.set("page", `${page}`);
  return `?${parameters}`;
}

/**
 * Finds Services by parts of their names, addresses, ports and endpoints, in any case of letters. Yields after each
 * Service.
 */
export function* searchServices(
  services: DesiredState["services"],
  { query, load }: { readonly query: PageQuery; readonly load: Load },
): Generator<undefined, SearchResult> {
  const words = query.words.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const compare = query.sort === "name"
    ? (a: string, b: string) => a < b ? -1 : 1
    : busiestFirst(load);
  const most = PER_PAGE * Math.min(query.page, MOST_PAGES);
  const foremost = new Foremost<SearchResult["services"][number]>(
    most,
    ([a], [b]) => compare(a, b),
  );
  let matches = 0;
  for (const [name, ports] of services) {
    yield;
    const text = words.length === 0 ? "" : textOf(name, ports);
    if (!words.every((word) => text.includes(word))) continue;
    matches++;
    foremost.add([name, ports]);
  }
  const pages = Math.min(Math.max(1, Math.ceil(matches / PER_PAGE)), MOST_PAGES);
  const page = Math.min(query.page, pages);
  return {
    query: { ...query, page },
    matches,
    pages,
    isCut: matches > PER_PAGE * pages,
    services: foremost.inOrder().slice((page - 1) * PER_PAGE, page * PER_PAGE),
  };
}

function textOf(name: string, ports: readonly DesiredServicePort[]): string {
  const parts = ports.flatMap((port) => [
    port.name,
    ...frontendsOf(port).map(({ address, port: number }) =>
      `${hostPort(address ?? "", number)}/${port.protocol}`
    ),
    ...usedEndpoints(port).map((endpoint) => hostPort(endpoint.address, endpoint.port)),
  ]);
  return [name, ...parts].join("\n").toLowerCase();
}
