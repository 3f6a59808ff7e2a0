import { assertEquals, assertStringIncludes } from "@std/assert";
import type { TraceReport } from "../../lib/explain/report.ts";
import { traceConnection, TraceReader } from "../../lib/explain/trace.ts";
import { traceScript } from "../../lib/backend/trace.ts";
import { ProgramFailedError, ProgramMissingError } from "../../lib/model/ports/ports.ts";
import { explainFrom, LOCAL, outcomeOf, REMOTE, slice, web } from "./cluster.ts";

const PACKET = { address: "10.96.0.10", port: 80, protocol: "tcp" } as const;
const OUTCOME = outcomeOf("node > 10.96.0.10:80/tcp", [web(), slice([LOCAL, REMOTE])]);

/** Reads lines of `nft monitor trace`, given without the number of the trace and the table. */
function traced(lines: readonly string[], outcome = OUTCOME): TraceReport {
  const reader = new TraceReader();
  for (const line of lines) reader.take(`trace id 1f ${line}`);
  return reader.report(PACKET, outcome);
}

const BEGIN = [
  'inet trace-signpost output packet: oif "lo" ip daddr 10.96.0.10 tcp sport 9 tcp dport 80 ',
  "inet trace-signpost output rule meta nftrace set 1 (verdict continue)",
  'inet signpost nat-output packet: oif "lo" ip daddr 10.96.0.10 tcp sport 9 tcp dport 80 ',
  "inet signpost nat-output rule jump services (verdict jump services)",
];

const TRANSLATED = [
  ...BEGIN,
  "inet signpost pick-endpoints4-tcp-2 rule dnat ip to x map @endpoints-tcp4 (verdict accept)",
];

const LEFT = [
  'inet signpost nat-postrouting packet: oif "eth0" ip daddr 10.244.1.11 tcp sport 9 tcp dport 8080 ',
  "inet signpost nat-postrouting rule meta mark & 1 == 1 masquerade fully-random (verdict accept)",
];

Deno.test("a trace tells the endpoint that a packet went to", () => {
  const { steps, ...report } = traced([...TRANSLATED, ...LEFT]);
  assertEquals(report, {
    verdict: "dnat",
    destination: "10.244.1.11:8080",
    masqueraded: true,
    hasLeft: true,
    agrees: true,
  });
  assertEquals(steps[0], {
    table: "inet signpost",
    chain: "nat-output",
    type: "rule",
    text: "jump services",
    verdict: "jump services",
  });
  assertEquals(steps.length, 3);
});

Deno.test("a trace that ends at the translation has found no route", () => {
  const { verdict, destination, hasLeft, agrees } = traced(TRANSLATED);
  assertEquals([verdict, destination, hasLeft, agrees], ["dnat", "", false, true]);
});

Deno.test("a trace tells rejects, drops, packets that are left alone and packets not seen", () => {
  const reject = [...BEGIN, "inet signpost reject-traffic rule reject (verdict drop)"];
  const drop = [...BEGIN, "inet signpost source-ranges4-tcp rule ip daddr x drop (verdict drop)"];
  const alone = [...BEGIN, "inet signpost nat-output policy accept "];
  for (
    const [lines, verdict] of [
      [reject, "reject"],
      [drop, "drop"],
      [alone, "none"],
      [[], "lost"],
    ] as const
  ) {
    const report = traced(lines);
    assertEquals([report.verdict, report.agrees], [verdict, false]);
    assertEquals(traced(lines, { ...OUTCOME, verdict: "drop" }).agrees, verdict === "drop");
  }
});

Deno.test("an endpoint that should not be used does not agree", () => {
  const lines = [...TRANSLATED, ...LEFT].map((line) => line.replace("10.244.1.11", "10.244.7.7"));
  assertEquals(traced(lines).agrees, false);
});

Deno.test("other packets in the trace are passed over", () => {
  const reader = new TraceReader();
  for (const line of [...TRANSLATED, ...LEFT]) {
    reader.take(`trace id 1f ${line}`);
    reader.take(`trace id 2e ${line.replace("10.244.1.11", "10.244.7.7")}`);
    reader.take("add table inet x");
  }
  assertEquals(reader.report(PACKET, OUTCOME).destination, "10.244.1.11:8080");
});

Deno.test("the script asks for the first packets of one connection, in a table of its own", () => {
  const script = traceScript({ ...PACKET, source: "192.168.0.2" });
  assertStringIncludes(
    script,
    "    ip saddr 192.168.0.2 ip daddr 10.96.0.10 tcp dport 80 tcp flags & (syn | ack) == syn " +
      "meta nftrace set 1\n",
  );
  assertStringIncludes(
    traceScript({ address: "fd00::a", port: 53, protocol: "udp", source: undefined }),
    "    ip6 daddr fd00::a udp dport 53 meta nftrace set 1\n",
  );
});

Deno.test("a trace without nft ends with a line that says so", async () => {
  const run = () => Promise.resolve({ code: 0, stdout: "", stderr: "" });
  const trace = (error: Error, runner = run) => {
    const linesThatFail = { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(error) }) };
    const packet = { ...PACKET, source: null, sender: "node" } as const;
    return traceConnection({ packet, outcome: OUTCOME }, {
      runtime: {
        clock: { now: () => 0, monotonic: () => 0, sleep: () => Promise.resolve() },
        runner: { run: runner },
        streamer: { lines: () => linesThatFail },
        sendProbe: () => Promise.resolve(),
      },
      signal: new AbortController().signal,
    });
  };
  const missing = new ProgramMissingError("nft");
  assertStringIncludes(
    `${await trace(missing, () => Promise.reject(missing))}`,
    "--trace: the program nft cannot be run",
  );
  const busy = new ProgramFailedError("nft", "not-started", "cannot be started now: no memory");
  assertEquals(await trace(busy), "--trace: nft cannot be started now: no memory");
});

Deno.test("a packet that this node cannot send is not traced", async () => {
  const untouched = () => Promise.reject(new Error("nothing may run"));
  const trace = (sender: "node" | "pod", protocol: "tcp" | "sctp") =>
    traceConnection({ packet: { ...PACKET, protocol, source: null, sender }, outcome: OUTCOME }, {
      runtime: {
        clock: { now: () => 0, monotonic: () => 0, sleep: untouched },
        runner: { run: untouched },
        streamer: { lines: () => ({ [Symbol.asyncIterator]: () => ({ next: untouched }) }) },
        sendProbe: untouched,
      },
      signal: new AbortController().signal,
    });
  assertEquals(await trace("node", "sctp"), "SCTP packets cannot be sent from here: no trace");
  const reason = "only this node's own packets can be sent from here: no trace (--from node)";
  assertEquals(await trace("pod", "tcp"), reason);
  const objects = [web(), slice([LOCAL])];
  const report = explainFrom({ source: "10.244.0.11" }, objects, { trace: reason });
  assertEquals(
    report.findings.filter(({ code }) => code === "not-traced"),
    [{ severity: "warning", code: "not-traced", message: reason, hint: "" }],
  );
  assertEquals(report.trace, null);
});
