import { assertEquals, assertMatch, assertNotMatch, assertStringIncludes } from "@std/assert";
import { parse } from "@std/yaml";
import { askStatus } from "../../lib/cli/client.ts";
import { status } from "../../lib/cli/status.ts";
import { FINDING, STATUS } from "../observe/page/contents.ts";
import { type AskRunOptions, noKeys, runAsking } from "./runtime.ts";

interface RunOptions extends AskRunOptions {
  readonly watch?: boolean;
}

function run({ watch = false, ...options }: RunOptions) {
  return runAsking(
    options,
    (query, context) => status({ name: "status", watch, ...query }, context),
  );
}

const answering = (answer: unknown): AskRunOptions["ask"] => () => Promise.resolve(answer);
const silent: AskRunOptions["ask"] = () => Promise.reject(new Error("connection refused"));

Deno.test("people get everything in a table", async () => {
  const { code, printed } = await run({
    ask: answering({
      ...STATUS,
      refused: [{ kind: "Service", key: "shop/bad", reason: "spec.ports[0].port is 0" }],
      conflicts: [{
        claim: "192.0.2.1 . tcp . 80",
        holder: "a/b",
        loser: "c/d",
        because: "which is older",
      }],
    }),
  });
  assertEquals(code, 0);
  assertEquals(
    printed.join(""),
    `signpost 0.1.0 (abc1234) on node-1: healthy
  mode             nftables (nft 1.0.6), kernel 6.18.0
  min sync period  adaptive, now 12 ms
  started          3h ago
  services         2 with 3 ports
  endpoints        5 in 4 slices
  drift repairs    0
  state file       12s old

WATCH    STATE     VERSION  LAST EVENT  LISTS  LAST ERROR
Service  watching  4711     4s ago      1

SYNC     WHEN     TOOK    OPERATIONS  SIZE
full     60m ago  1.25 s  900         51 kB
partial  3s ago   12 ms   4           310 B

REFUSED  OBJECT    WHY
Service  shop/bad  spec.ports[0].port is 0

CONFLICT          HELD BY  WANTED BY  WHY
192.0.2.1:80/tcp  a/b      c/d        which is older
`,
  );
});

Deno.test("findings stand below the facts, each with what to do", async () => {
  const { code, printed } = await run({ ask: answering({ ...STATUS, findings: [FINDING] }) });
  assertEquals(code, 0);
  assertMatch(printed.join(""), /^signpost .* on node-1: healthy, with 1 warning$/m);
  assertStringIncludes(
    printed.join(""),
    "\nwarning Node node-1 has 192.168.77.3; no interface here has it [node-address-elsewhere]\n" +
      "  Set --hostname-override.\n\nWATCH",
  );
});

Deno.test("a daemon with an error finding is unhealthy", async () => {
  const findings = [{ ...FINDING, severity: "error" }];
  const { code, printed } = await run({ ask: answering({ ...STATUS, findings }) });
  assertEquals(code, 1);
  assertMatch(printed.join(""), /on node-1: unhealthy: 1 error$/m);
});

Deno.test("programs get the daemon's answer as JSON or YAML", async () => {
  const answer = { ...STATUS, later: "unknown" };
  const json = await run({ ask: answering(answer), output: "json" });
  assertEquals(JSON.parse(json.printed.join("")), answer);
  const yaml = await run({ ask: answering(STATUS), output: "yaml" });
  assertEquals(parse(yaml.printed.join("")), STATUS);
});

Deno.test("a daemon that has not synced yet is starting", async () => {
  const { code, printed } = await run({ ask: answering({ ...STATUS, syncs: [] }) });
  assertEquals(code, 1);
  assertMatch(printed.join(""), /on node-1: starting: no rules are written yet\n/);
});

Deno.test("a daemon that is late is exit code 1", async () => {
  const { code, printed } = await run({ ask: answering({ ...STATUS, healthy: false }) });
  assertEquals(code, 1);
  assertMatch(printed.join(""), /unhealthy: an update waits for too long/);
});

Deno.test("a missing daemon gives one line", async () => {
  const { code, printed, complaints } = await run({ ask: silent });
  assertEquals([code, printed], [1, []]);
  assertEquals(complaints, [
    "signpost: no daemon answers at /run/s.sock: start signpost on this node with this --socket, and run this command as root",
  ]);
});

Deno.test("an answer of another version, or of something else, is refused in one line", async () => {
  const other = await run({ ask: answering({ ...STATUS, statusVersion: 2 }) });
  assertEquals(other.code, 1);
  assertMatch(
    other.complaints.join("\n"),
    /^signpost: the daemon answers in version 2, .*version 1/,
  );
  for (const answer of [null, "hello", [], {}]) {
    const { code, complaints } = await run({ ask: answering(answer) });
    assertEquals([code, complaints.length], [1, 1]);
    assertMatch(complaints.join("\n"), /the program at the socket is not signpost/);
  }
});

Deno.test("what the daemon says cannot move the cursor or begin a line", async () => {
  const evil = "x\x1b[2J\n\u009b31mFAKE\u202e";
  for (const output of ["table", "json", "yaml"] as const) {
    const { printed } = await run({
      ask: answering({
        ...STATUS,
        node: evil,
        refused: [{ kind: "Service", key: evil, reason: evil }],
      }),
      output,
    });
    const text = printed.join("");
    assertNotMatch(text.replaceAll("\n", ""), /[\p{Cc}\p{Bidi_Control}]/u);
    assertNotMatch(text, /^FAKE/m);
  }
});

/** Answers so often, then has the command interrupted. */
function watched(answers: readonly (unknown | "silence")[]): Pick<RunOptions, "ask" | "signal"> {
  const controller = new AbortController();
  const left = [...answers];
  return {
    signal: controller.signal,
    ask: () => {
      const answer = left.shift();
      if (left.length === 0) queueMicrotask(() => controller.abort());
      return answer === "silence" ? Promise.reject(new Error("gone")) : Promise.resolve(answer);
    },
  };
}

Deno.test("watching prints a line a second outside of a terminal", async () => {
  const conflict = { claim: "192.0.2.1 . tcp . 80", holder: "a/b", loser: "c/d", because: "" };
  const conflicts = [conflict, { ...conflict, more: 5 }];
  const late = { ...STATUS, healthy: false, conflicts, driftRepairs: 3 };
  const { code, printed } = await run({
    ...watched([STATUS, late, "silence", STATUS, STATUS]),
    watch: true,
  });
  assertEquals(code, 0);
  const lines = printed.join("").trimEnd().split("\n");
  assertMatch(
    lines[0] ?? "",
    /^2026-01-02T03:04:05.000Z healthy, nftables, 2 services, 5 endpoints/,
  );
  assertMatch(lines[1] ?? "", /unhealthy: .* 6 conflicts, 3 drift repairs$/);
  assertMatch(lines[2] ?? "", /^no daemon answers at/);
  assertMatch(lines[3] ?? "", /healthy, nftables/);
});

/** Enters and leaves the alternate screen. */
const ALTERNATE_SCREEN = ["\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"];

Deno.test("a namespace has its own findings beside those of the node", async () => {
  const refused = [
    { kind: "Service", key: "shop/bad", reason: "x" },
    { kind: "Service", key: "shop2/bad", reason: "x" },
  ];
  const conflict = { claim: "192.0.2.1 . tcp . 80", because: "" };
  const conflicts = [
    { ...conflict, holder: "a/b", loser: "shop/web" },
    { ...conflict, holder: "a/b", loser: "c/d" },
  ];
  const findings = [
    { ...FINDING, services: [] },
    { ...FINDING, services: ["shop/web"] },
    { ...FINDING, services: ["a/b"] },
  ];
  const { printed } = await run({
    ask: answering({ ...STATUS, refused, conflicts, findings }),
    namespace: "shop",
    output: "json",
  });
  const shown = JSON.parse(printed.join(""));
  assertEquals(shown, {
    ...STATUS,
    refused: refused.slice(0, 1),
    conflicts: conflicts.slice(0, 1),
    findings: findings.slice(0, 2),
  });
});

Deno.test("watching on a terminal fits into it", async () => {
  const { printed } = await run({
    ...watched([STATUS, STATUS, STATUS]),
    watch: true,
    runtime: {
      isTerminal: () => true,
      typedKeys: noKeys,
      terminalSize: () => ({ columns: 30, rows: 8 }),
    },
  });
  assertEquals([printed.shift(), printed.pop()], ALTERNATE_SCREEN);
  for (const screen of printed) {
    assertEquals(screen.startsWith("\x1b[H"), true);
    assertEquals(screen.endsWith("\x1b[J"), true);
    const lines = screen.slice("\x1b[H".length, -"\x1b[J".length).split("\n").slice(0, -1);
    assertEquals(lines.length, 7);
    for (const line of lines) {
      assertEquals(line.replaceAll(/\p{Cc}\[\d*[mK]/gu, "").length <= 30, true, line);
    }
  }
});

Deno.test("watching as JSON is one document a line", async () => {
  const { printed } = await run({
    ...watched([STATUS, STATUS, STATUS]),
    watch: true,
    output: "json",
  });
  const lines = printed.join("").trimEnd().split("\n");
  assertEquals(lines.map((line) => JSON.parse(line)), [STATUS, STATUS]);
});

Deno.test("watching one namespace leaves out the objects of others, in each format", async () => {
  const refused = [{ kind: "Service", key: "shop2/bad", reason: "x" }];
  for (const output of ["json", "yaml", "table"] as const) {
    const status = { ...STATUS, refused };
    const { printed } = await run({
      ...watched([status, status, status]),
      watch: true,
      namespace: "shop",
      output,
    });
    const text = printed.join("");
    assertEquals([text.includes("shop2/bad"), text.includes("1 refused")], [false, false], text);
  }
});

Deno.test("an IP family without rules is a line of the status, with the reason", async () => {
  const reason = "this node has no IPv6 (the kernel has no IPv6 sockets)";
  const status = { ...STATUS, missingFamilies: [{ family: "IPv6", reason }] };
  const { printed } = await run({ ask: () => Promise.resolve(status) });
  assertMatch(printed.join(""), /^ {2}IPv6 +no rules: this node has no IPv6 \(the kernel has no /m);
});

Deno.test("an answer with fresh findings may take longer than the programs of the daemon", async () => {
  const timeouts: (number | undefined)[] = [];
  const askDaemon: AskRunOptions["ask"] = (_, { timeout }) => {
    timeouts.push(timeout);
    return Promise.resolve(STATUS);
  };
  const daemon = { configuration: { signpost: { socket: "/s" } }, runtime: { askDaemon } };
  for (const isFresh of [false, true]) await askStatus(daemon, { isFresh });
  assertEquals(timeouts, [undefined, 90_000]);
});

Deno.test("on a narrow terminal, watching wraps the text of findings", async () => {
  const { printed } = await run({
    ...watched([{ ...STATUS, findings: [FINDING] }, STATUS]),
    watch: true,
    runtime: {
      isTerminal: () => true,
      environment: (name) => name === "NO_COLOR" ? "1" : undefined,
      typedKeys: noKeys,
      terminalSize: () => ({ columns: 40, rows: 40 }),
    },
  });
  assertStringIncludes(
    (printed[1] ?? "").replaceAll(/\p{Cc}\[\d*[mK]/gu, ""),
    "\nwarning Node node-1 has 192.168.77.3; no\ninterface here has it\n" +
      "[node-address-elsewhere]\n  Set --hostname-override.\n",
  );
});
