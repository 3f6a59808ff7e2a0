import { assertEquals } from "@std/assert";
import { eventReader, lostEvents } from "../../lib/cli/observe.ts";
import { portsByFrontend } from "../../lib/explain/traffic.ts";
import { desiredPort } from "../backend/desired_port.ts";

const NEW =
  "[1795741169.580583]\t    [NEW] tcp      6 120 SYN_SENT src=10.244.0.7 dst=10.96.0.10 sport=44802 dport=80 [UNREPLIED] src=10.244.1.11 dst=10.244.0.7 sport=8080 dport=44802 id=1";
const END =
  "[1795741172.780583]\t[DESTROY] tcp      6 119 TIME_WAIT src=10.244.0.7 dst=10.96.0.10 sport=44802 dport=80 src=10.244.1.11 dst=10.244.0.7 sport=8080 dport=44802 [ASSURED] id=1";
/** The ends of attempts without and with an answer. */
const SILENT = NEW.replace("    [NEW]", "[DESTROY]");
const REFUSED = SILENT.replace("120 SYN_SENT", "CLOSE");

/** Returns the events that an observer of the Service makes of lines. */
function observed(lines: readonly string[], filter: { client?: string; endpoint?: string } = {}) {
  const ports = portsByFrontend([desiredPort()], ["192.168.0.2"]);
  const read = eventReader({ client: "", endpoint: "", ...filter });
  return lines.map((line) => read(line, ports));
}

Deno.test("a connection begins and ends after a time", () => {
  const [begun, ended] = observed([NEW, END]);
  assertEquals(begun, {
    time: "2026-11-27T00:59:29.580Z",
    event: "new",
    protocol: "tcp",
    client: "10.244.0.7:44802",
    service: desiredPort().name,
    frontend: "10.96.0.10:80",
    endpoint: "10.244.1.11:8080",
    seconds: null,
  });
  assertEquals([ended?.event, ended?.seconds], ["end", 3.2]);
});

Deno.test("a refused attempt differs from one without an answer", () => {
  assertEquals(observed([SILENT, REFUSED]).map((each) => [each?.event, each?.seconds]), [
    ["no-answer", null],
    ["refused", null],
  ]);
});

Deno.test("other connections make no event", () => {
  const other = NEW.replace("dst=10.96.0.10", "dst=10.96.0.11");
  assertEquals(observed([other, NEW.replace("tcp", "icmp"), "", "\x1b[2J[NEW] tcp"]), [
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

Deno.test("a client or an endpoint is the only one that is shown", () => {
  const events = (filter: { client?: string; endpoint?: string }) =>
    observed([NEW], filter).filter((each) => each !== undefined).length;
  assertEquals(events({ client: "10.244.0.7" }), 1);
  assertEquals(events({ client: "10.244.0.8" }), 0);
  assertEquals(events({ endpoint: "10.244.1.11" }), 1);
  assertEquals(events({ endpoint: "10.244.1.12" }), 0);
});

Deno.test("lost events of subscriptions are added up", () => {
  const listing =
    `sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
000000008f9138af 12  0          00000000 0        0        0     2        0        9420422
00000000a4a1e3c7 12  19778      00000000 0        0        0     2        7        9420985
00000000a70e4302 12  3775232412 00000005 0        0        0     2        1234     9420986
`;
  assertEquals(lostEvents(listing), 1234);
});
