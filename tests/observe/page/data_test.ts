import { assertEquals, assertNotMatch } from "@std/assert";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import type { Status } from "../../../lib/model/status.ts";
import { type PageData, pageData } from "../../../lib/observe/page/data.ts";
import { contents, FINDING, STATUS } from "./contents.ts";

function dataOf(changes: Partial<Status>): PageData {
  const status = { ...STATUS, ...changes };
  return atOnce(pageData(contents({ status }), { words: "", sort: "name" }));
}

const REFUSED = { kind: "Service", key: "shop/bad", reason: "port 0" } as const;
const CONFLICT = {
  claim: "192.0.2.1 . tcp . 80",
  holder: "a/b",
  loser: "c/d",
  because: "which is older",
};

Deno.test("a node without problems has none on the page", () => {
  const { problems, health, facts, notes } = dataOf({});
  assertEquals([problems, health, notes.rows], [[], { health: "healthy", colour: "green" }, []]);
  assertEquals(facts[0], ["mode", "nftables (nft 1.0.6), kernel 6.18.0"]);
});

Deno.test("node ports on loopback are a fact of the page", () => {
  const { facts } = dataOf({ localhostNodePorts: { listeners: 2, connections: 1, refused: 3 } });
  assertEquals(
    new Map(facts).get("on loopback"),
    "2 listeners, 1 connection, 3 closed because too many were open",
  );
});

Deno.test("the fast path is a fact of the page", () => {
  const interfaces = ["eth0", "veth1"];
  const said = (connections: number | null) =>
    new Map(dataOf({ acceleration: { packets: 20, interfaces, connections } }).facts)
      .get("fast path");
  assertEquals(said(12), "12 connections after 20 packets, 2 interfaces");
  assertEquals(said(null), "connections after 20 packets, 2 interfaces");
});

Deno.test("problems are counted by their kind, errors and failing watches first", () => {
  const [watch] = STATUS.watches;
  const { problems, notes } = dataOf({
    findings: [
      { ...FINDING, severity: "error" },
      FINDING,
      FINDING,
      { ...FINDING, severity: "info" },
    ],
    watches: [...STATUS.watches, { ...watch!, state: "backoff", lastError: "refused" }],
    refused: [REFUSED, REFUSED],
    conflicts: [CONFLICT, { ...CONFLICT, claim: "192.0.2.1 . tcp . 443" }],
  });
  assertEquals(problems.map(({ title, colour, rows }) => [title, colour, rows.length]), [
    ["1 error", "red", 1],
    ["1 watch fails", "red", 1],
    ["2 warnings", "yellow", 2],
    ["2 refused objects", "yellow", 2],
    ["2 conflicts", "yellow", 2],
  ]);
  assertEquals(problems[2]?.rows[0], [
    `${FINDING.what} [${FINDING.id}]`,
    FINDING.where,
    FINDING.remedy,
  ]);
  assertEquals(notes.rows.length, 1);
});

Deno.test("a kind that the API server does not have is not a failed watch", () => {
  const watches = STATUS.watches.map((watch) => ({ ...watch, state: "absent", lastError: "404" }));
  assertEquals(dataOf({ watches }).problems, []);
});

Deno.test("of many problems the first are shown and all are counted", () => {
  const { problems: [refused] } = dataOf({ refused: Array.from({ length: 812 }, () => REFUSED) });
  assertEquals(refused?.title, "812 refused objects, the first 100");
  assertEquals(refused?.rows.length, 100);
});

Deno.test("secrets in the messages of watches are not shown", () => {
  const watches = STATUS.watches.map((watch) => ({
    ...watch,
    state: "backoff",
    lastError: "Authorization: Bearer abcdef.ghijkl.mnopqr refused",
  }));
  assertNotMatch(JSON.stringify(dataOf({ watches })), /abcdef\.ghijkl/);
});
