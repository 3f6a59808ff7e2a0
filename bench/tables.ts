/**
 * The results as tables, beside the targets that they are held against.
 *
 * @module
 */
import { count, megabytes, milliseconds, ratio, renderTable, type Row } from "./report.ts";
import type { RuleShape } from "./parts/iptables.ts";
import type { Pause } from "./parts/pause.ts";
import type { Results, SizeResult } from "./results.ts";

/** All tables of a run. */
export function renderResults(results: Results): string {
  return [
    sizeTable(results.sizes),
    ...(results.counters ? [counterTable(results.counters)] : []),
    pauseTable(results.sizes),
    ...(results.packets ? [packetTable(results.packets)] : []),
    ...(results.iptables ? [iptablesTable(results.iptables)] : []),
    ...(results.localhost ? [localhostTable(results.localhost)] : []),
    otherTable(results),
  ].filter((table) => table !== "").join("\n");
}

type Cell = (result: SizeResult) => string | undefined;

const SIZE_ROWS: readonly (readonly [label: string, target: string, cell: Cell])[] = [
  [
    "process start to first sync done",
    "3 s at 10,000",
    ({ start: s }) => s && milliseconds(s.total),
  ],
  ["  until the lists are in", "", ({ start: s }) => s && milliseconds(s.lists)],
  ["  first sync", "", ({ start: s }) => s && milliseconds(s.firstSync)],
  ["  nft -f alone, same script", "", ({ start: s }) => s && milliseconds(s.nft)],
  ["  first sync / nft alone", "1.5 x", ({ start: s }) => s && ratio(s.ratio)],
  ["  all of it / nft alone", "", ({ start: s }) => s && ratio(s.total / s.nft)],
  ["  script", "", ({ start: s }) => s && `${(s.bytes / 1e6).toFixed(1)} MB`],
  ["floor: nft -f of one element, p50", "", ({ floor: f }) => f && milliseconds(f.p50)],
  ["floor, until visible, p50", "", ({ floor: f }) => f && milliseconds(f.visible)],
  ["floor, p99", "", ({ floor: f }) => f && milliseconds(f.p99)],
  ["change visible, 2/s, p50", "", ({ steady: s }) => s && milliseconds(s.p50)],
  ["  / floor", "2 x", ({ steady: s, floor: f }) => s && f && ratio(s.p50 / f.p50)],
  ["change visible, 2/s, p99", "", ({ steady: s }) => s && milliseconds(s.p99)],
  ["  / floor", "4 x", ({ steady: s, floor: f }) => s && f && ratio(s.p99 / f.p50)],
  ["operations per change", "flat", ({ steady: s }) => s && count(s.operationsPerChange)],
  ["bytes of script per change", "flat", ({ steady: s }) => s && count(s.bytesPerChange)],
  ["bytes allocated per change", "flat", ({ work: w }) => w && count(Math.round(w.allocated))],
  ["change visible, 200/s, first fifth", "", ({ burst: b }) => b && milliseconds(b.firstFifth)],
  [
    "change visible, 200/s, last fifth",
    "no queue",
    ({ burst: b }) => b && milliseconds(b.lastFifth),
  ],
  ["  still pending 1 s later", "0", ({ burst: b }) => b && count(b.pending)],
  ["CPU at 10 changes/s", "10 % at 10,000", ({ cpu: c }) => c && `${(c.part * 100).toFixed(1)} %`],
];

function sizeTable(sizes: readonly SizeResult[]): string {
  const rows = SIZE_ROWS.map(([label, target, cell]): Row => [
    label,
    ...sizes.map((size) => cell(size) ?? ""),
    target,
  ]).filter(([, ...cells]) => cells.slice(0, -1).some((cell) => cell !== ""));
  if (rows.length === 0) return "";
  const heads = sizes.map(({ services }) => `${count(services)} services`);
  return renderTable(["", ...heads, "target"], rows);
}

function counterTable(all: NonNullable<Results["counters"]>): string {
  const rows = all.flatMap(({ services, counted, uncounted }): Row[] =>
    ([["counted", counted], ["not counted", uncounted]] as const).map(([name, cost]) => [
      `${count(services)} services, ${name}`,
      Math.round(cost.perSecond).toLocaleString("en"),
      ...[cost.p50, cost.p99, cost.first].map((time) => `${time.toFixed(0)} us`),
      megabytes(cost.slab),
      megabytes(cost.percpu),
      `${(1000 * cost.listing).toFixed(0)} ms`,
    ])
  );
  const head: Row = ["counters", "per second", "p50", "p99", "first", "slab", "percpu", "listing"];
  return renderTable(head, rows);
}

/** The adaptive pause, the fixed second, and how many times less the first one is. */
function pauseTable(sizes: readonly SizeResult[]): string {
  const rows = sizes.flatMap(({ services, pause = [] }) =>
    pause.filter(({ minSyncPeriod }) => minSyncPeriod === "adaptive").flatMap((adaptive): Row[] => {
      const fixed = pause.find((each) => each.mode === adaptive.mode && each !== adaptive);
      return fixed === undefined ? [] : PAUSE_ROWS.map(([label, value, print]) => [
        `${adaptive.mode}, ${count(services)} services, ${label}`,
        print(value(adaptive)),
        print(value(fixed)),
        ratio(value(adaptive) / value(fixed)),
      ]);
    })
  );
  if (rows.length === 0) return "";
  return renderTable(["min sync period", "adaptive", "1s", "adaptive / 1s"], rows);
}

type PauseRow = readonly [
  label: string,
  value: (pause: Pause) => number,
  print: (value: number) => string,
];

const percent = (part: number) => `${(part * 100).toFixed(1)} %`;

const PAUSE_ROWS: readonly PauseRow[] = ([["2/s", "lone"], ["50/s", "burst"]] as const).flatMap(
  ([pace, which]): PauseRow[] => [
    [`${pace}, p50`, (pause) => pause[which].changes.p50, milliseconds],
    [`${pace}, p99`, (pause) => pause[which].changes.p99, milliseconds],
    [`${pace}, syncs`, (pause) => pause[which].changes.syncs, count],
    [`${pace}, time in syncs`, (pause) => pause[which].syncing, percent],
    [`${pace}, CPU of signpost`, (pause) => pause[which].busy.own, percent],
    [`${pace}, longest sync`, (pause) => pause[which].longest, milliseconds],
    [`${pace}, CPU of nft or iptables`, (pause) => pause[which].busy.children, percent],
  ],
);

function packetTable(packets: NonNullable<Results["packets"]>): string {
  const rows = packets.flatMap(({ services, ...paths }): Row[] =>
    ([
      ["signpost", paths.signpost],
      ["chain per service", paths.chainPerService],
      ["no rules in the way", paths.direct],
    ] as const).map(([name, round]) => [
      `${count(services)} services, ${name}`,
      Math.round(round.perSecond).toLocaleString("en"),
      ...[round.p50, round.p99, round.first].map((time) => `${time.toFixed(0)} us`),
    ])
  );
  return renderTable(["new connections", "per second", "p50", "p99", "first"], rows);
}

function iptablesTable(results: NonNullable<Results["iptables"]>): string {
  const rows = results.flatMap(({ services, backend, signpost, chainPerEndpoint }): Row[] => {
    const label = `${backend}, ${count(services)} services`;
    const cells = (shape: RuleShape) => [
      count(shape.rulesPerService),
      `${(shape.bytes / 1e6).toFixed(1)} MB`,
      milliseconds(shape.restore),
      milliseconds(shape.change),
    ];
    return [
      [`${label}, signpost`, ...cells(signpost)],
      [`${label}, chain per endpoint`, ...cells(chainPerEndpoint)],
    ];
  });
  return renderTable(["iptables", "rules/service", "input", "restore all", "change one"], rows);
}

function localhostTable(localhost: NonNullable<Results["localhost"]>): string {
  const { direct, listener, listeners, opening } = localhost;
  const row = (name: string, each: typeof direct): Row => [
    name,
    `${count(Math.round(each.megabytesPerSecond))} MB/s`,
    `${each.p50.toFixed(0)} us`,
    `${each.p99.toFixed(0)} us`,
  ];
  const each = (bytes: number) => `${(bytes / listeners / 1000).toFixed(1)} kB each`;
  const what = count(listeners);
  return renderTable(["node ports on loopback", "transfer", "p50", "p99"], [
    row("direct connection", direct),
    row("through a listener", listener),
  ]) + "\n" + renderTable(["", "", "opening"], [
    [`memory of ${what} listeners`, each(localhost.listenersMemory), milliseconds(opening)],
    [`memory of ${what} idle connections`, each(localhost.connectionsMemory), ""],
  ]);
}

function otherTable({ firstRequest, wideService }: Results): string {
  const rows: Row[] = [];
  if (firstRequest !== undefined) {
    rows.push(["process start to first HTTP request", milliseconds(firstRequest), "150 ms"]);
  }
  if (wideService) {
    const { endpoints, operations, bytes } = wideService;
    rows.push([
      `one of ${count(endpoints)} endpoints changes: operations, bytes`,
      `${count(operations)}, ${count(bytes)}`,
      "constant",
    ]);
  }
  return rows.length === 0 ? "" : renderTable(["", "", "target"], rows);
}
