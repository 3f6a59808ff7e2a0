import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { top } from "../../lib/cli/top.ts";
import { readConnections } from "../../lib/cli/client.ts";
import type { ConnectionsReport } from "../../lib/model/connections.ts";
import { CONNECTIONS } from "../observe/page/contents.ts";
import { type AskRunOptions, noKeys, runAsking } from "./runtime.ts";
import { connectionsTo } from "../support/cluster.ts";

interface RunOptions extends AskRunOptions {
  readonly once?: boolean;
}

function run({ once = false, ...options }: RunOptions) {
  return runAsking(
    options,
    (query, context) => top({ name: "top", once, service: "", ...query }, context),
  );
}

const answering = (...answers: readonly unknown[]): AskRunOptions["ask"] => {
  let at = 0;
  return () => Promise.resolve(answers[Math.min(at++, answers.length - 1)]);
};

const TABLE = `317 new connections a second, over the last 2.0 s; 185,181 in all on node-1

PER SECOND   IN ALL  FRONTEND   PORT    SERVICE
       313  184,203  clusterIP  80/tcp  shop/web
       4.5      977  nodePort   80/tcp  shop/web
         0        1  clusterIP  53/udp  kube-system/dns
`;

Deno.test("one table is printed outside of a terminal", async () => {
  const { code, printed } = await run({ ask: answering(CONNECTIONS) });
  assertEquals([code, printed], [0, [TABLE]]);
});

Deno.test("connections that the rules refuse have a table of their own", async () => {
  const counts = { connections: 1200, perSecond: 40 };
  const closed = connectionsTo({ service: "closed", ...counts, reason: "no-endpoints" });
  const totalRejected = counts;
  const { printed } = await run({
    ask: answering({ ...CONNECTIONS, rejected: [closed], totalRejected }),
  });
  const [title = "", rest = ""] = TABLE.split(" in all on node-1\n");
  assertEquals(printed, [
    `${title} in all on node-1; 40 a second rejected
${rest}
REJECTED  IN ALL  FRONTEND   PORT    WHY                     SERVICE
      40   1,200  clusterIP  80/tcp  rejected: no endpoints  shop/closed
`,
  ]);
});

Deno.test("--once prints one table in a terminal too", async () => {
  const environment = (name: string) => name === "NO_COLOR" ? "1" : undefined;
  const { printed } = await run({
    ask: answering(CONNECTIONS),
    once: true,
    runtime: { isTerminal: () => true, environment },
  });
  assertEquals(printed, [TABLE]);
});

Deno.test("programs get the second reading as JSON, for a rate takes two", async () => {
  const first = { ...CONNECTIONS, overSeconds: 0 };
  const { printed } = await run({ ask: answering(first, first, CONNECTIONS), output: "json" });
  assertEquals(readConnections(JSON.parse(printed.join(""))), CONNECTIONS);
});

Deno.test("a terminal shows it again and again in the room that it has, until q is typed", async () => {
  const typed = Promise.withResolvers<void>();
  let shown = 0;
  const screens: string[] = [];
  const { code } = await run({
    ask: answering(CONNECTIONS),
    runtime: {
      isTerminal: () => true,
      environment: (name) => name === "NO_COLOR" ? "1" : undefined,
      terminalSize: () => ({ columns: 40, rows: 6 }),
      typedKeys: async function* () {
        await typed.promise;
        yield "q";
      },
      print: (text) => {
        screens.push(String(text));
        if (++shown === 3) typed.resolve();
        return Promise.resolve();
      },
    },
  });
  assertEquals([code, screens.length >= 3], [0, true]);
  assertEquals(
    [screens[0], screens.at(-1)],
    ["\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"],
    "the alternate screen",
  );
  assertEquals(
    screens[1],
    "\x1b[H317 new connections a second, over the …\x1b[m\x1b[K\n" +
      "\x1b[m\x1b[K\n" +
      "PER SECOND   IN ALL  FRONTEND   PORT   …\x1b[m\x1b[K\n" +
      "\x1b[m\x1b[K\n" +
      "q ends, ? lists the keys; lines 1 to 3\x1b[m\x1b[K\n" +
      "\x1b[J",
  );
});

/** Runs it in a terminal until it has drawn so many screens, and returns these. */
async function screensOf(
  ask: AskRunOptions["ask"],
  { count = 4, columns = 80, rows = 24 } = {},
): Promise<readonly string[]> {
  const stop = new AbortController();
  const screens: string[] = [];
  await run({
    ask,
    signal: stop.signal,
    runtime: {
      isTerminal: () => true,
      typedKeys: noKeys,
      terminalSize: () => ({ columns, rows }),
      print: (text) => {
        screens.push(String(text));
        if (screens.length === count) stop.abort();
        return Promise.resolve();
      },
    },
  });
  return screens;
}

Deno.test("sums are those of all rows, also of those that find no room", async () => {
  const paths: string[] = [];
  const total = { connections: 999_999, perSecond: 5000 };
  const screens = await screensOf((_, { path }) => {
    paths.push(path);
    return Promise.resolve(paths.length === 1 ? CONNECTIONS : { ...CONNECTIONS, total });
  }, { count: 3, columns: 99, rows: 6 });
  assertEquals(paths, ["/v1/connections", "/v1/connections?top=24"]);
  assertMatch(screens[2] ?? "", /\[H5000 new connections a second.*; 999,999 in all/);
});

Deno.test("a namespace has its own Services and sums, which are those of the whole list", async () => {
  const paths: string[] = [];
  const { printed } = await run({
    ask: (_, { path }) => {
      paths.push(path);
      return Promise.resolve(CONNECTIONS);
    },
    namespace: "kube-system",
    output: "json",
  });
  const { services, total } = JSON.parse(printed.join(""));
  assertEquals(services, CONNECTIONS.services.filter((each) => each.namespace === "kube-system"));
  assertEquals(total, { connections: services[0].connections, perSecond: services[0].perSecond });
  assertEquals(new Set(paths), new Set(["/v1/connections"]));
});

Deno.test("a terminal that hangs up ends it", async () => {
  const { code } = await run({
    ask: answering(CONNECTIONS),
    runtime: {
      isTerminal: () => true,
      typedKeys: async function* () {
        yield await Promise.reject(new Error("Input/output error (os error 5)"));
      },
    },
  });
  assertEquals(code, 0);
});

Deno.test("in a terminal a daemon that is started again is waited for", async () => {
  const answers: (ConnectionsReport | Error)[] = [CONNECTIONS, new Error("refused"), CONNECTIONS];
  const screens = await screensOf(() => {
    const answer = answers.shift();
    return answer instanceof Error || answer === undefined
      ? Promise.reject(answer)
      : Promise.resolve(answer);
  });
  assertMatch(screens[2] ?? "", /no daemon answers/);
  assertMatch(screens[3] ?? "", /shop\/web/);
});

const STOPPED = { ...CONNECTIONS, off: "--service-metrics is off", services: [] };

Deno.test("a daemon that counts nothing, or stops to, gives one line with exit code 1", async () => {
  const line = "signpost: connections are not counted: --service-metrics is off";
  for (const answers of [[STOPPED], [CONNECTIONS, STOPPED]]) {
    for (const output of ["json", "yaml", "table"] as const) {
      const { code, printed, complaints } = await run({ ask: answering(...answers), output });
      assertEquals([code, printed, complaints], [1, [], [line]]);
    }
  }
});

Deno.test("a terminal shows it again once the daemon counts again", async () => {
  const screens = await screensOf(answering(CONNECTIONS, STOPPED, CONNECTIONS));
  assertStringIncludes(
    screens[2] ?? "",
    "\x1b[Hconnections are not counted: --service-metrics is off\x1b",
  );
  assertMatch(screens[3] ?? "", /shop\/web/);
});

Deno.test("a missing or older daemon gives one line with exit code 1", async () => {
  const silent = await run({ ask: () => Promise.reject(new Error("refused")) });
  assertEquals(silent.code, 1);
  assertMatch(silent.complaints.join("\n"), /^signpost: no daemon answers at \/run\/s\.sock/);
  const other = await run({ ask: answering({ ...CONNECTIONS, connectionsVersion: 2 }) });
  assertMatch(
    other.complaints.join("\n"),
    /answers in version 2, but this signpost reads version 1/,
  );
  const none = await run({ ask: answering({ hello: 1 }) });
  assertMatch(none.complaints.join("\n"), /the program at the socket is not signpost/);
});

Deno.test("no name moves the cursor", async () => {
  const [row] = CONNECTIONS.services;
  const evil = { ...row, service: "\x1b[2Jweb\n" };
  const { printed } = await run({ ask: answering({ ...CONNECTIONS, services: [evil] }) });
  assertEquals(printed.join("").includes("\x1b"), false);
  assertMatch(printed.join(""), /shop\/\\u001b\[2Jweb\\n/);
  const empty = await run({ ask: answering({ ...CONNECTIONS, services: [] }) });
  assertMatch(empty.printed.join(""), /no connection to a Service yet/);
});

/** Types keys, one after each drawing, and returns the lines of the last screen. */
async function afterKeys(keys: readonly string[], columns = 80): Promise<readonly string[]> {
  const stop = new AbortController();
  const [row] = CONNECTIONS.services;
  const services = Array.from({ length: 30 }, (_, i) => ({
    ...row,
    namespace: i % 2 === 0 ? "shop" : "dev",
    service: `a-rather-long-name-of-a-service-${String(i).padStart(2, "0")}`,
    connections: 1000 + i,
  }));
  let last = "";
  await run({
    ask: answering({ ...CONNECTIONS, services }),
    signal: stop.signal,
    runtime: {
      isTerminal: () => true,
      environment: (name) => name === "NO_COLOR" ? "1" : undefined,
      terminalSize: () => ({ columns, rows: 16 }),
      clock: {
        now: () => 0,
        monotonic: () => 0,
        sleep: (_, signal) =>
          new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve())),
      },
      typedKeys: async function* () {
        for (const key of keys) yield key;
        stop.abort();
      },
      print: (text) => {
        if (String(text).startsWith("\x1b[H")) last = String(text);
        return Promise.resolve();
      },
    },
  });
  return last.replaceAll(/\p{Cc}\[\d*[A-Za-z]/gu, "").split("\n");
}

const namesIn = (lines: readonly string[]) =>
  lines.flatMap((line) => /service-(\d\d)/.exec(line)?.[1] ?? []);

Deno.test("arrows and pages scroll the rows below the head, as far as there are some", async () => {
  assertEquals(namesIn(await afterKeys(["\x1b[B", "\x1b[B", "\x1b[A"]))[0], "01");
  const page = await afterKeys(["\x1b[6~"]);
  assertMatch(page[2] ?? "", /^PER SECOND/);
  assertEquals([namesIn(page)[0], page.at(-2)], ["10", "q ends, ? lists the keys; lines 11 to 20"]);
  assertEquals(namesIn(await afterKeys(["\x1b[6~", "\x1b[6~", "\x1b[6~"])).at(-1), "29");
  assertEquals(namesIn(await afterKeys(["\x1b[6~", "\x1b[5~", "\x1b[5~"]))[0], "00");
});

Deno.test("a name that has no room is cut with a mark, numbers are not", async () => {
  const [, , , row = ""] = await afterKeys([" "], 60);
  assertMatch(row, /^ +313 +1,000 +clusterIP +80\/tcp +shop\/a-rather-.*…$/);
  assertEquals(row.length, 60);
});

Deno.test("keys filter and sort the rows", async () => {
  assertEquals(namesIn(await afterKeys([..."/-07", "\n"])), ["07"]);
  assertEquals((await afterKeys([..."/-07q"]))[1], "names with /-07q_");
  assertEquals(namesIn(await afterKeys([..."/-07", "\x1b"])).length, 10);
  const dev = await afterKeys(["n"]);
  assertEquals([dev[1], namesIn(dev)[0]], ["namespace dev", "01"]);
  assertEquals((await afterKeys(["n", "n", "n"]))[1], "");
  const sorted = await afterKeys(["s"]);
  assertEquals([sorted[1], namesIn(sorted)[0]], ["by connections in all", "29"]);
  assertStringIncludes((await afterKeys(["?"])).join("\n"), "↑ ↓ PgUp PgDn  scroll");
  assertEquals(namesIn(await afterKeys(["?", "?"])).length, 10);
});
