import { assertEquals } from "@std/assert";
import { finding } from "../../lib/findings/catalog.ts";
import type { Severity } from "../../lib/model/status.ts";
import {
  formatAge,
  formatAgo,
  formatDuration,
  formatSize,
  healthOf,
} from "../../lib/observe/human.ts";

Deno.test("ages have one unit", () => {
  const ages = [-3, 0, 59.9, 119, 120, 7_199, 7_200, 172_799, 172_800, 864_000].map(formatAge);
  assertEquals(ages, ["0s", "0s", "59s", "119s", "2m", "119m", "2h", "47h", "2d", "10d"]);
});

Deno.test("a time that never was is never", () => {
  const now = Date.parse("2026-01-02T03:04:05Z");
  assertEquals(formatAgo("2026-01-02T03:04:01Z", now), "4s ago");
  assertEquals(formatAgo("", now), "never");
  assertEquals(formatAgo("soon", now), "never");
});

Deno.test("durations and sizes are short", () => {
  assertEquals([0.0004, 0.0123, 0.9994, 1.2].map(formatDuration), [
    "0.4 ms",
    "12 ms",
    "999 ms",
    "1.20 s",
  ]);
  assertEquals([0, 812, 3_210, 51_200, 999_600, 14_000_000].map(formatSize), [
    "0 B",
    "812 B",
    "3.2 kB",
    "51 kB",
    "1.0 MB",
    "14 MB",
  ]);
});

Deno.test("health is shown with its reason", () => {
  const syncs = [{ kind: "full", at: "", seconds: 1, operations: 1, bytes: 1 }] as const;
  const well = {
    healthy: true,
    nodeEligible: true,
    stale: false,
    findings: [],
    syncs,
    watches: [],
  };
  const found = (...severities: readonly Severity[]) => ({
    findings: severities.map((severity) => ({
      id: "x",
      severity,
      what: "",
      where: "",
      remedy: "",
      services: [],
    })),
  });
  assertEquals(
    [
      well,
      { ...well, stale: true },
      { ...well, nodeEligible: false },
      { ...well, healthy: false },
      { ...well, portions: { done: 7, of: 21 } },
      { ...well, syncs: [] },
      { ...well, ...found("warning", "info", "warning") },
      { ...well, ...found("info") },
      { ...well, ...found("error", "warning") },
    ].map((status) => healthOf(status, 0)),
    [
      { health: "healthy", colour: "green" },
      { health: "healthy, with the rules of the state file", colour: "yellow" },
      { health: "healthy, but load balancers avoid this node", colour: "yellow" },
      { health: "unhealthy: an update waits for too long", colour: "red" },
      { health: "starting: portions 7 of 21 are in the kernel", colour: "yellow" },
      { health: "starting: no rules are written yet", colour: "yellow" },
      { health: "healthy, with 2 warnings", colour: "yellow" },
      { health: "healthy", colour: "green" },
      { health: "unhealthy: 1 error", colour: "red" },
    ],
  );
});

Deno.test("a node without an open watch is cut off", () => {
  const sync = { kind: "full", at: "", seconds: 1, operations: 1, bytes: 1 } as const;
  const unreachable = finding("api-server-unreachable", { what: "", where: "" });
  const watch = {
    kind: "Service",
    state: "backoff",
    resourceVersion: "1",
    lastEvent: "",
    lists: 1,
    lastError: "no connection to the API server: certificate signed by unknown authority",
    failingSince: "2026-01-02T03:04:05Z",
  } as const;
  const lost = {
    healthy: true,
    nodeEligible: true,
    stale: false,
    findings: [unreachable],
    syncs: [sync],
    watches: [watch],
  };
  const now = Date.parse("2026-01-02T03:17:05Z");
  const end = "but cut off from the API server for 13m (certificate signed by unknown authority)";
  const other = finding("nft-crashes", { what: "", where: "" });
  assertEquals(
    [
      lost,
      { ...lost, stale: true },
      { ...lost, syncs: [] },
      { ...lost, watches: [{ ...watch, state: "watching" }] },
      { ...lost, findings: [unreachable, other] },
    ].map((status) => healthOf(status, now).health),
    [
      `healthy rules, ${end}`,
      `rules of the state file, ${end}`,
      `no rules are written yet, ${end}`,
      "unhealthy: 1 error",
      "unhealthy: 2 errors",
    ],
  );
});
