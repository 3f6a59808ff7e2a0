import { assertEquals, assertStringIncludes } from "@std/assert";
import { readTraffic, trafficFindings } from "../../lib/explain/traffic.ts";
import type { TrafficReport } from "../../lib/explain/report.ts";
import { LOCAL, NODE_ADDRESS, REMOTE, slice, web, worldOf } from "./cluster.ts";

/** An entry to the cluster IP that was sent to an endpoint. */
function entry(start: string, endpoint: string, flag = ""): string {
  return `${start} src=10.244.0.9 dst=10.96.0.10 sport=4000 dport=80 ${flag && `[${flag}] `}` +
    `src=${endpoint} dst=10.244.0.9 sport=8080 dport=4000 mark=0 use=1`;
}

/** Reads a kernel that has these entries. @param count as the kernel counts them */
async function traffic(lines: readonly string[], count = lines.length, late = false) {
  const { world } = worldOf([web(), slice([LOCAL, REMOTE])]);
  const { traffic } = await readTraffic([...world.desired.services.values()].flat(), {
    isAsked: false,
    ownAddresses: [NODE_ADDRESS],
    clock: {
      now: () => 0,
      monotonic: () => 0,
      sleep: () => late ? Promise.resolve() : new Promise(() => {}),
    },
    runner: {
      run: ([, , name]) => {
        const stdout = name?.endsWith("count") ? `${count}\n` : "120\n";
        return Promise.resolve({ code: 0, stdout, stderr: "" });
      },
    },
    streamer: {
      async *lines(argv) {
        await Promise.resolve();
        if (argv.includes("ipv4")) yield* lines;
      },
    },
  });
  return traffic;
}

const told = (report: TrafficReport) =>
  trafficFindings(report).map(({ severity, message }) => `${severity} ${message}`);

Deno.test("connections are counted by endpoint", async () => {
  const report = await traffic([
    entry("tcp      6 431999 ESTABLISHED", "10.244.0.11", "ASSURED"),
    entry("tcp      6 100 TIME_WAIT", "10.244.0.11", "ASSURED"),
    entry("tcp      6 100 SYN_SENT", "10.244.1.11", "UNREPLIED"),
    entry("tcp      6 7 SYN_SENT", "10.244.1.11", "UNREPLIED"),
    // The answer may be under way.
    entry("tcp      6 119 SYN_SENT", "10.244.1.11", "UNREPLIED"),
    // Not by our DNAT, then to what is not an endpoint now.
    entry("tcp      6 7 SYN_SENT", "10.96.0.10", "UNREPLIED"),
    entry("tcp      6 7 SYN_SENT", "10.244.1.12", "UNREPLIED"),
    "tcp a line that is no entry dport=80 ",
  ]);
  const tcp = { protocol: "tcp", port: 8080 } as const;
  assertEquals(report, {
    reason: "",
    overSeconds: 120,
    endpoints: [
      { ...tcp, address: "10.244.0.11", isCurrent: true, open: 1, unanswered: 0 },
      { ...tcp, address: "10.244.1.11", isCurrent: true, open: 0, unanswered: 2 },
      { ...tcp, address: "10.244.1.12", isCurrent: false, open: 0, unanswered: 1 },
    ],
  });
  assertEquals(told(report), [
    "warning 2 connections to 10.244.1.11:8080 in the last 2 minutes got no answer: its pod, a " +
    "network policy or the network between the nodes drops them",
  ]);
  assertStringIncludes(told({ ...report, overSeconds: 100 }).join(), " in the last 100 s got ");
});

Deno.test("connections that were not counted have a reason", async () => {
  const reasons = [
    await traffic([], 200_001),
    await traffic([], 3),
    await traffic([], 0, true),
  ].map(({ reason, endpoints }) => [reason, endpoints.length]);
  assertEquals(reasons, [
    ["the kernel tracks 200,001 connections, more than 200,000", 0],
    ["conntrack -L printed nothing: run it as root", 0],
    ["conntrack -L took over 1000 ms", 0],
  ]);
});
