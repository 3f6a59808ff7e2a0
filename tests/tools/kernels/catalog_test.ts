import { assert, assertEquals } from "@std/assert";
import {
  dayOfYear,
  isWithoutIpv6,
  MACHINE_RUNS,
  NAMES,
  runOfDay,
  selectNames,
} from "../../../tools/kernels/catalog.ts";

Deno.test("every name of the kernels' catalog is there once", () => {
  assertEquals(NAMES.length, new Set(NAMES).size);
});

Deno.test("all kernels are run if none is named", () => {
  assertEquals(selectNames([]), NAMES);
  assertEquals(selectNames(["sid", "bookworm"]), ["bookworm", "sid"]);
  const flowtables = ["bullseye", "bookworm", "trixie", "sid"].map((suite) =>
    `flowtables-${suite}`
  );
  assertEquals(selectNames(["flowtables", "ipvs"]), ["ipvs", ...flowtables]);
});

Deno.test("within some days every kernel has its turn, but none of the machine's own series", () => {
  const release = "6.12.117+deb13-amd64";
  const chosen = new Set(Array.from({ length: 366 }, (_, day) => runOfDay(day + 1, release).name));
  const others = MACHINE_RUNS.filter(({ series, only, architecture }) =>
    series !== "6.12" && only === undefined && architecture === undefined
  ).map(({ name }) => name);
  assertEquals([...chosen].sort(), others.sort());
  assert(others.length < MACHINE_RUNS.length);
  assertEquals(runOfDay(7, "6.18.44").name, runOfDay(7, "6.18.44").name);
});

Deno.test("the day of the year is counted from 1, in UTC", () => {
  assertEquals(dayOfYear(new Date("2026-01-01T00:00:00Z")), 1);
  assertEquals(dayOfYear(new Date("2026-12-31T23:59:59Z")), 365);
  assertEquals(dayOfYear(new Date("2028-12-31T12:00:00Z")), 366);
});

Deno.test("the run without IPv6 is known by its kernel's command line", () => {
  assertEquals(MACHINE_RUNS.filter(isWithoutIpv6).map(({ name }) => name), ["no-ipv6"]);
});
