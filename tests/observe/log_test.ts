import { assertEquals, assertMatch } from "@std/assert";
import * as fc from "fast-check";
import { createLogger, type LoggerOptions, MAXIMUM_TEXT_LENGTH } from "../../lib/observe/log.ts";

const clock = { now: () => Date.parse("2026-01-02T03:04:05.678Z") };

function collect(options: Omit<LoggerOptions, "clock" | "sink"> = {}) {
  const lines: string[] = [];
  return { lines, logger: createLogger({ clock, sink: (line) => lines.push(line), ...options }) };
}

Deno.test("numbers are rounded in both formats", () => {
  for (const format of ["text", "json"] as const) {
    const { lines, logger } = collect({ format });
    logger.info("synced", { seconds: 0.03135488600000002, bytes: 8_400_123 });
    assertMatch(lines[0] ?? "", /seconds(?:=|":)0\.0314(?: bytes=|,"bytes":)8400123/);
  }
});

Deno.test("a text line has time, level, message", () => {
  const { lines, logger } = collect();
  logger.info("synced", { kind: "full", services: 3, error: 'a "b" c', zone: undefined });
  assertEquals(lines, [
    '2026-01-02T03:04:05.678Z INFO synced kind=full services=3 error="a \\"b\\" c"\n',
  ]);
});

Deno.test("an empty value is quoted, so that it is seen", () => {
  const { lines, logger } = collect({ journald: true });
  logger.warn("m", { value: "" });
  assertEquals(lines, ['<4>m value=""\n']);
});

Deno.test("lines for journald begin with the priority and leave time and level to it", () => {
  const { lines, logger } = collect({ journald: true, verbosity: 1 });
  logger.error("a");
  logger.warn("b");
  logger.info("c");
  logger.debug(1, "d");
  assertEquals(lines, ["<3>a\n", "<4>b\n", "<6>c\n", "<7>d\n"]);
});

Deno.test("debug lines are printed up to the verbosity", () => {
  const { lines, logger } = collect({ journald: true, verbosity: 2 });
  for (const level of [1, 2, 3]) logger.debug(level, `level ${level}`);
  assertEquals(lines, ["<7>level 1\n", "<7>level 2\n"]);
});

Deno.test("a JSON line is one object, whose own names are not overwritten by fields", () => {
  const { lines, logger } = collect({ format: "json", verbosity: 4 });
  logger.debug(4, "m", { level: "x", count: 1, isStale: false });
  assertEquals(lines.map((line) => JSON.parse(line)), [{
    ts: "2026-01-02T03:04:05.678Z",
    level: "debug",
    msg: "m",
    v: 4,
    level_: "x",
    count: 1,
    isStale: false,
  }]);
});

Deno.test("line breaks, escapes and direction marks do not get through", () => {
  const { lines, logger } = collect({ journald: true });
  logger.info("a\nb\u001b[2J", { name: "x\r\n<0>y\u202e\u2028\u0085" });
  assertEquals(lines, ['<6>a\\nb\\u001b[2J name="x\\r\\n<0>y\\u202e\\u2028\\u0085"\n']);
});

Deno.test("whatever is logged, it is one printable line", () => {
  const text = fc.string({ unit: "binary" });
  fc.assert(
    fc.property(text, text, text, fc.constantFrom("text" as const, "json" as const), (
      message,
      name,
      value,
      format,
    ) => {
      const { lines, logger } = collect({ format });
      logger.info(message, { [name]: value });
      assertEquals(lines.length, 1);
      assertMatch(lines[0] ?? "", /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*\n$/u);
      if (format === "json") JSON.parse(lines[0] ?? "");
    }),
  );
});

Deno.test("secrets are taken out of messages and values", () => {
  const { lines, logger } = collect({ journald: true });
  const token = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJl.c2lnbmF0dXJl";
  logger.error(`401 for Authorization: Bearer ${token}`, {
    header: "Basic dXNlcjpwYXNz",
    text: `got ${token}`,
    url: "https://user:password@example.com/x",
    yaml: "password: correct-horse",
    key: "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----",
  });
  assertEquals(lines, [
    "<3>401 for Authorization: Bearer [redacted] " +
    'header="Basic [redacted]" text="got [redacted]" url=https://[redacted]@example.com/x ' +
    'yaml="password: [redacted]" key=[redacted]\n',
  ]);
});

Deno.test("the path of a token file is not a secret", () => {
  const { lines, logger } = collect({ journald: true });
  logger.warn("cannot read", { path: "/var/run/secrets/token", error: "users[0].token: not text" });
  assertEquals(lines, [
    '<4>cannot read path=/var/run/secrets/token error="users[0].token: not text"\n',
  ]);
});

Deno.test("endless text is cut", () => {
  const { lines, logger } = collect({ journald: true });
  logger.info("m", { text: "x".repeat(1_000_000) });
  assertEquals(lines, [`<6>m text="${"x".repeat(MAXIMUM_TEXT_LENGTH)}…"\n`]);
});
