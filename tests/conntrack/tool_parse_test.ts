import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { type ConntrackEntry, parseEntries, parseEntry } from "../../lib/conntrack/tool.ts";
import { casesOf } from "../support/table.ts";
import { flow, formatFlow } from "./fake_conntrack.ts";

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
