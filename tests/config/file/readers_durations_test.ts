import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { parseDuration, printDuration } from "../../../lib/config/file/readers.ts";

Deno.test("durations are read as Go's time.ParseDuration reads them", () => {
  const good: readonly [string, number][] = [
    ["0", 0],
    ["0s", 0],
    ["-0", 0],
    ["30s", 30_000],
    ["1h30m", 5_400_000],
    ["500ms", 500],
    ["1.5s", 1_500],
    [".5s", 500],
    ["1.s", 1_000],
    ["+2m", 120_000],
    ["-1s", -1_000],
    ["1s1h", 3_601_000],
    ["1us", 0.001],
    ["1µs", 0.001],
    ["1μs", 0.001],
    ["1ns", 0.000001],
    ["2562047h", 9_223_369_200_000],
    // Go's longest. A number holds it to 2 µs.
    ["2562047h47m16.854775807s", 9_223_372_036_854.775],
  ];
  for (const [text, milliseconds] of good) assertEquals(parseDuration(text), milliseconds, text);
});

Deno.test("text that is not a duration is refused", () => {
  const bad = [
    "",
    "5",
    "s",
    ".s",
    "1",
    "1d",
    "1 s",
    " 1s",
    "1s ",
    "--1s",
    "1h-30m",
    "1e3s",
    "Infinity",
    "0x1s",
    "1S",
    "3000000h",
    "2562047h47m16.9s",
    "1s\n",
    `${"000s".repeat(60)}000`,
  ];
  for (const text of bad) assertEquals(parseDuration(text), undefined, JSON.stringify(text));
});

Deno.test("durations are printed as Go's Duration.String prints them", () => {
  const cases: readonly [number, string][] = [
    [0, "0s"],
    [30_000, "30s"],
    [60_000, "1m0s"],
    [90_500, "1m30.5s"],
    [3_600_000, "1h0m0s"],
    [86_400_000, "24h0m0s"],
    [500, "500ms"],
    [1.5, "1.5ms"],
    [0.0015, "1.5µs"],
    [0.000001, "1ns"],
    [-1_000, "-1s"],
    [1_500, "1.5s"],
  ];
  for (const [milliseconds, text] of cases) assertEquals(printDuration(milliseconds), text);
});

Deno.test("a printed duration is read as the same number", () => {
  fc.assert(fc.property(fc.integer({ min: -1e12, max: 1e12 }), (milliseconds) => {
    assertEquals(parseDuration(printDuration(milliseconds)), milliseconds);
  }));
});
