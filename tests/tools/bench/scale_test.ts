/** Tests the tables and goals of `deno task bench scale`. */
import {
  assertAlmostEquals,
  assertEquals,
  assertMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { exponent, GOALS } from "../../../bench/scale/goals.ts";
import { readScaleOptions } from "../../../bench/scale/options.ts";
import { renderPage } from "../../../bench/scale/page.ts";
import type { ScaleResult, ScaleResults } from "../../../bench/scale/results.ts";

function result(services: number, endpoints: number): ScaleResult {
  const size = services * endpoints;
  const start = { total: size, sync: size / 100, peaks: { own: 90e6, child: size * 400 } };
  return {
    services,
    endpoints,
    floor: { time: size / 90, peak: size * 2_400, script: size * 60 },
    first: start,
    restart: start,
    steady: { own: 60e6 + size * 100, children: 4e6 },
    change: { count: 60, p50: 8, p99: 20, cpu: { own: 5, children: 4 } },
    drift: [{ noticed: 5, repaired: 90 }],
    silence: { first: QUIET, restart: QUIET, full: QUIET },
  };
}

const QUIET = { wait: 90, busy: 20 };

const RESULTS: ScaleResults = {
  sitting: "commit abc1234 on 2026-11-23, load average 0.1 before",
  minutes: 20.4,
  machine: { kernel: "6.18", cores: 2, cpu: "x", nft: "nftables v1.0.6", deno: "2.9.6" },
  base: 60e6,
  shapes: [result(1_000, 10), result(10_000, 10), result(100_000, 10)],
  failed: [],
  noLimit: "",
};

function verdicts(name: string, results = RESULTS): (boolean | undefined)[] {
  const goal = GOALS.find((each) => each.name.startsWith(name));
  return results.shapes.map((shape) => goal?.judge(shape, results)?.met);
}

Deno.test("bench scale: the exponent of what is linear is 1, of what is flat 0", () => {
  assertAlmostEquals(exponent([[10, 5], [100, 50], [1_000, 500]]), 1);
  assertAlmostEquals(exponent([[10, 7], [100, 7]]), 0);
  assertAlmostEquals(exponent([[1, 3], [10, 300]]), 2);
  assertEquals(exponent([[10, 5]]), NaN);
});

Deno.test("bench scale: a goal is met, missed, or none of this shape", () => {
  assertEquals(verdicts("first sync /"), [undefined, true, true]);
  assertEquals(verdicts("first sync of"), [undefined, undefined, true]);
  assertEquals(verdicts("nft's peak"), [true, true, false]);
  assertEquals(verdicts("within the unit's MemoryMax"), [undefined, undefined, undefined]);
  const [first] = RESULTS.shapes;
  const slow = { ...result(2_000, 1), change: { ...result(1, 1).change, p50: 17 } };
  assertEquals(
    verdicts("lone change", { ...RESULTS, shapes: first ? [first, slow] : [] }),
    [true, false],
  );
  const silence = { first: QUIET, restart: QUIET, full: { wait: 900, busy: 300 } };
  assertEquals(
    verdicts("work until", { ...RESULTS, shapes: [result(1, 1), { ...slow, silence }] }),
    [true, false],
  );
  const held = { limit: 2e9, version: 2, peak: 2e9, firstPeak: 1e9, killed: 0 } as const;
  const limit = { ...held, done: "restart" } as const;
  const tried = [limit, { ...limit, killed: 1 }, { ...limit, done: "first sync" as const }];
  const shapes = tried.map((each) => ({ ...result(100_000, 10), limit: each }));
  assertEquals(verdicts("within", { ...RESULTS, shapes }), [true, false, false]);
});

Deno.test("bench scale: the page names the commit", () => {
  const page = renderPage(RESULTS);
  for (const part of ["commit abc1234", "| 100,000 x 10 |", "met: ", "missed: "]) {
    assertStringIncludes(page, part);
  }
  assertStringIncludes(renderPage({ ...RESULTS, noLimit: "no cgroup" }), "not tried: no cgroup.");
});

Deno.test("bench scale: a missed target has its reason", () => {
  const missed =
    /^\| nft's peak.*\| 100,000 x 10 \| 400 MB of 300 MB \| 11.1 s, 2400 MB \| \w.* \|$/m;
  assertMatch(renderPage(RESULTS), missed);
  const [small] = RESULTS.shapes;
  const met = renderPage({ ...RESULTS, shapes: small ? [small] : [] });
  assertEquals(/missed/.exec(met), null);
  const failed = [{ services: 5_006, endpoints: 50, reason: "signpost ended with 1:\nlines" }];
  assertMatch(
    renderPage({ ...RESULTS, failed }),
    /^Not measured: 5,006 x 50: signpost ended with 1:$/m,
  );
});

Deno.test("bench scale: shapes are read from the command line", () => {
  assertEquals(readScaleOptions(["--shapes", "5006x50,100x1"]).shapes, [
    { services: 5_006, endpoints: 50 },
    { services: 100, endpoints: 1 },
  ]);
  assertThrows(() => readScaleOptions(["--shapes", "5006"]), Error, '"5006" is not a shape');
  assertEquals(readScaleOptions(["--short"]).writes, false);
});
