import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import fc from "fast-check";
import { addSuspects, portsToList, type Suspects } from "../../lib/conntrack/conntrack.ts";
import {
  type ConntrackEntry,
  ConntrackError,
  deleteEntries,
  deletionsOf,
  listEntries,
  parseEntries,
  parseEntry,
} from "../../lib/conntrack/tool.ts";
import { FakeConntrack, type Flow, flow, formatFlow } from "./fake_conntrack.ts";
import { servicePort } from "./states.ts";
import { casesOf } from "../support/table.ts";

const A = "10.244.0.1:5353";
const VIP = "10.96.0.10:53";
function entriesOf(flows: readonly Flow[]) {
  return [...parseEntries(flows.map((each) => `${formatFlow(each)}\n`).join(""))];
}

const [TO_A = ""] = deletionsOf(entriesOf([flow(`10.0.0.1:1 > ${VIP} > ${A}`)]));

Deno.test("flows with one destination and one endpoint are one deletion", () => {
  const flows = [
    flow(`10.0.0.9:1 > ${VIP}`),
    flow(`10.0.0.1:1 > ${VIP} > ${A}`),
    flow(`10.0.0.2:1 > ${VIP} > ${A}`),
    flow(`10.0.0.2:2 > ${VIP} > ${A}`, 7),
    { ...flow(`10.0.0.9:1 > ${VIP}`), protocol: "tcp" as const },
    { ...flow(`10.0.0.9:1 > ${VIP}`), protocol: "sctp" as const },
  ];
  assertEquals([...deletionsOf(entriesOf(flows))], [
    "-D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.96.0.10 --reply-port-src 53 -w 0",
    "-D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.244.0.1 --reply-port-src 5353",
    "-D -f ipv4 -p tcp --state SYN_SENT --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.96.0.10 --reply-port-src 53 -w 0",
    "-D -f ipv4 -p sctp --state COOKIE_WAIT --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.96.0.10 --reply-port-src 53 -w 0",
  ]);
});

Deno.test("a listing is of the ports of the frontends, or of all if they are many", () => {
  const ports = (...fields: Parameters<typeof servicePort>[1][]) => {
    const suspects = { 4: new Map() as Suspects, 6: new Map() as Suspects };
    addSuspects(suspects, { before: [], after: fields.map((each) => servicePort([], each)) });
    return portsToList(suspects[4], "udp");
  };
  assertEquals(ports({ externalIPs: ["192.0.2.1"] }), [53]);
  assertEquals(ports({ nodePort: 30053 }), [53, 30053]);
  assertEquals(ports({ port: 1 }, { port: 2 }, { port: 3 }, { port: 4 }), [undefined]);
  assertEquals(ports(), []);
  assertEquals(ports({ protocol: "tcp", port: 80 }, { port: 1 }), [1]);
});

const addresses = fc.constantFrom("10.96.0.10", "10.96.0.11", "10.244.0.1");
const ports = fc.constantFrom(53, 5353);
const flows = fc.array(
  fc.record({
    src: fc.constantFrom("10.0.0.1", "10.0.0.2"),
    sport: fc.nat(3),
    dst: addresses,
    dport: ports,
    replySrc: addresses,
    replySport: ports,
    zone: fc.constantFrom(0, 0, 7),
    protocol: fc.constantFrom("udp", "tcp"),
  }),
);
const isUntranslated = (each: Flow) => each.dst === each.replySrc && each.dport === each.replySport;
const destinationOf = (each: Flow) =>
  `${each.protocol} ${each.dst} ${each.dport} ${each.replySrc} ${each.replySport}`;

Deno.test("deletions remove only flows that are like the chosen ones", async () => {
  await fc.assert(fc.asyncProperty(flows, fc.nat(15), async (all, chosen) => {
    const fake = new FakeConntrack(all);
    const doomed = all.filter((each, index) =>
      (chosen >> (index % 4) & 1) === 1 && !(isUntranslated(each) && each.zone !== 0)
    );
    const kinds = new Set(doomed.map(destinationOf));
    const kept = all.filter((each) =>
      !kinds.has(destinationOf(each)) || isUntranslated(each) && each.zone !== 0
    );
    let deleted = 0;
    for (const each of deletionsOf(entriesOf(doomed))) deleted += await deleteEntries(fake, each);
    assertEquals(fake.flows, kept);
    assertEquals(deleted, all.length - kept.length);
  }));
});

Deno.test("flows that are gone already are not an error", async () => {
  assertEquals(await deleteEntries(new FakeConntrack(), TO_A), 0);
});

Deno.test("a refusal is an error of one line that says what the tool said", async () => {
  const fake = new FakeConntrack();
  fake.failure = {
    code: 1,
    stdout: "",
    stderr: "\nOperation failed: \u001b[31mno right\nsecond\n",
  };
  const messages = [
    (await assertRejects(() => listEntries(fake, { family: 4, protocol: "udp" }), ConntrackError))
      .message,
    (await assertRejects(() => deleteEntries(fake, TO_A), ConntrackError)).message,
  ];
  assertEquals(messages, [
    "conntrack cannot list conntrack entries (exit 1): Operation failed: [31mno right",
    "conntrack cannot delete stale conntrack entries (exit 1): Operation failed: [31mno right",
  ]);
});

Deno.test("a kernel that keeps connections on the fast path is named with what to do", async () => {
  const fake = new FakeConntrack();
  fake.failure = { code: 1, stdout: "", stderr: "Operation failed: Device or resource busy\n" };
  const deleting = () => deleteEntries(fake, TO_A);
  const { message } = await assertRejects(deleting, ConntrackError);
  assertMatch(message, /busy; this kernel keeps .* 6\.1\.32.*unset signpost\.acceleration$/);
});

const IPV4: ConntrackEntry = {
  family: 4,
  protocol: "udp",
  original: { src: "10.0.0.1", dst: "10.96.0.10", sport: 1000, dport: 53 },
  reply: { src: "10.244.0.1", dst: "10.0.0.1", sport: 5353, dport: 1000 },
  zoned: false,
  flags: ["UNREPLIED"],
  state: "",
  timeout: 0,
};

/** Lines of conntrack 1.4.7 on kernel 6.18, other lines that it may print, and how their entries differ from IPV4. */
const LINES = casesOf(`
a flow without an answer => udp      17 299 src=10.0.0.1 dst=10.96.0.10 sport=1000 dport=53 [UNREPLIED] src=10.244.0.1 dst=10.0.0.1 sport=5353 dport=1000 mark=0 use=1 => {}
the extended format with an id => ipv4     2 udp      17 299 src=10.0.0.1 dst=10.96.0.10 sport=1000 dport=53 [UNREPLIED] src=10.244.0.1 dst=10.0.0.1 sport=5353 dport=1000 mark=0 use=1 id=3437743250 => {}
counters, a timestamp, labels and fields that are not known => udp      17 117 src=10.0.0.1 dst=10.96.0.10 sport=1000 dport=53 packets=3 bytes=87 src=10.244.0.1 dst=10.0.0.1 sport=5353 dport=1000 packets=3 bytes=90 [ASSURED] mark=16384 secctx=system_u:object_r:x delta-time=5 novel=1 use=1 => {"flags":["ASSURED"]}
an offloaded flow, which has no timeout => udp      17 src=10.0.0.1 dst=10.96.0.10 sport=1000 dport=53 src=10.244.0.1 dst=10.0.0.1 sport=5353 dport=1000 [HW_OFFLOAD] mark=0 use=2 => {"flags":["HW_OFFLOAD"]}
a flow in a zone => udp      17 29 src=10.0.0.1 dst=10.96.0.10 sport=1000 dport=53 src=10.244.0.1 dst=10.0.0.1 sport=5353 dport=1000 [ASSURED] mark=0 zone=7 use=1 => {"zoned":true,"flags":["ASSURED"]}
an IPv6 flow, its addresses made canonical => udp      17 299 src=fd00:0:0:0::1 dst=FD00:10:96::10 sport=1000 dport=53 src=fd00:10:244::1 dst=fd00::1 sport=5353 dport=1000 mark=1 use=1 => {"family":6,"original":{"src":"fd00::1","dst":"fd00:10:96::10","sport":1000,"dport":53},"reply":{"src":"fd00:10:244::1","dst":"fd00::1","sport":5353,"dport":1000},"flags":[]}
a TCP flow, which has a state => tcp      6 119 SYN_SENT src=10.0.0.1 dst=10.96.0.10 sport=1000 dport=53 [UNREPLIED] src=10.244.0.1 dst=10.0.0.1 sport=5353 dport=1000 mark=0 use=1 => {"protocol":"tcp","state":"SYN_SENT","timeout":119}
`).map(([what, line, fields]) => [what, line, { ...IPV4, ...JSON.parse(fields) }] as const);

for (const [what, line, entry] of LINES) {
  Deno.test(`a line is read: ${what}`, () => assertEquals(parseEntry(line), entry));
}

const REFUSED: readonly (readonly [what: string, line: string])[] = [
  ["an empty line", ""],
  ["a message", "conntrack v1.4.7 (conntrack-tools): 8 flow entries have been shown."],
  ["only one direction", "udp 17 29 src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 mark=0 use=1"],
  ["another protocol", formatFlow(flow("10.0.0.1:1 > 10.0.0.2:2")).replace("udp", "udplite")],
  ["an address that is none", formatFlow(flow("10.0.0.1:1 > 10.0.0.256:2"))],
  ["an address that would be an option", formatFlow(flow("10.0.0.1:1 > -D:2"))],
  ["a port that is none", formatFlow(flow("10.0.0.1:1 > 10.0.0.2:65536"))],
  ["two families", formatFlow(flow("10.0.0.1:1 > [fd00::1]:2"))],
  ["two families of two directions", formatFlow(flow("10.0.0.1:1 > 10.0.0.2:2 > [fd00::1]:2"))],
];

for (const [what, line] of REFUSED) {
  Deno.test(`a line is passed over: ${what}`, () => assertEquals(parseEntry(line), undefined));
}

Deno.test("a listing is read to its last line, with a newline at its end or without", () => {
  const lines = LINES.map(([, line]) => line).join("\n");
  const entries = LINES.map(([, , entry]) => entry);
  assertEquals([...parseEntries(lines)], entries);
  assertEquals([...parseEntries(`${lines}\n\nsomething else\n`)], entries);
});

Deno.test("whatever the text is, reading it does not fail", () => {
  const words = fc.constantFrom(
    "src=",
    "dst=10.0.0.1",
    "sport=1",
    "[X]",
    "udp",
    "=",
    "__proto__=1",
  );
  const line = fc.oneof(fc.string(), fc.array(words).map((each) => each.join(" ")));
  fc.assert(fc.property(line, (text) => void [...parseEntries(text)]));
});
