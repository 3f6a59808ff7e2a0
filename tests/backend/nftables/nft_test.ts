import { casesOf } from "../../support/table.ts";
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { ApplyError, type ApplyFailure } from "../../../lib/model/kernel/dataplane.ts";
import {
  type ProcessResult,
  ProgramFailedError,
  ProgramMissingError,
} from "../../../lib/model/ports/ports.ts";
import { classify, Nft } from "../../../lib/backend/nftables/nft.ts";
import { maxOutput } from "../../../lib/system/process.ts";
import { Kernel } from "./kernel.ts";

/** The failure that nft 1.0.6 means, its standard error, and what of it is quoted. */
const ERRORS = casesOf(`
not-permitted => Operation not permitted (you must be root)\\nnetlink: Error: cache initialization failed: Operation not permitted\\n => netlink: Error: cache initialization failed: Operation not permitted
not-permitted => /dev/stdin:1:1-17: Error: Could not process rule: Operation not permitted\\nadd table inet x\\n^^^^^^^^^^^^^^^^^\\n => /dev/stdin:1:1-17: Error: Could not process rule: Operation not permitted
conflict => /dev/stdin:1:42-60: Error: Could not process rule: No such file or directory\\ndelete element inet signpost hairpins4 { 10.0.0.9 . 10.0.0.9 }\\n                                         ^^^^\\n => /dev/stdin:1:42-60: Error: Could not process rule: No such file or directory
conflict => /dev/stdin:1:19-26: Error: Could not process rule: File exists\\ncreate table inet signpost\\n => /dev/stdin:1:19-26: Error: Could not process rule: File exists
busy => /dev/stdin:3:1-9: Error: Could not process rule: Device or resource busy\\n => /dev/stdin:3:1-9: Error: Could not process rule: Device or resource busy
not-supported => /dev/stdin:4:9-11: Error: Could not process rule: Operation not supported\\nfib saddr type local\\n => /dev/stdin:4:9-11: Error: Could not process rule: Operation not supported
not-supported => /dev/stdin:1:74-74: Error: syntax error, unexpected '}', expecting newline or semicolon\\n => /dev/stdin:1:74-74: Error: syntax error, unexpected '}', expecting newline or semicolon
not-permitted => netlink: Error: Could not process rule: Message too long\\n => netlink: Error: Could not process rule: Message too long
unknown => Killed\\n => Killed
unknown =>  => nothing
`);

for (const [failure, stderr, said] of ERRORS) {
  Deno.test(`nft's error is ${failure}: ${said}`, () => {
    const { failure: found, message } = classify(stderr);
    assertEquals<string>(found, failure);
    assertEquals(message.endsWith(`nft said: ${said}`), true, message);
    assertEquals(message.includes("\n"), false);
  });
}

Deno.test("a long error is cut", () => {
  const { message } = classify(`/dev/stdin:1:1-2: Error: ${"x".repeat(5_000)}`);
  assertEquals(message.length < 400, true);
});

/** An `nft` that ends as the test says, and remembers how it was called. */
function fake(result: Partial<ProcessResult> = {}) {
  const calls: string[] = [];
  const nft = new Nft({
    run: (argv, stdin) => {
      calls.push(stdin === undefined ? argv.join(" ") : `${argv.join(" ")} < ${stdin}`);
      return Promise.resolve({ code: 0, stdout: "", stderr: "", ...result });
    },
  });
  return { nft, calls };
}

Deno.test("a script goes to nft by its standard input, to be taken or only to be checked", async () => {
  const { nft, calls } = fake();
  await nft.apply("script");
  await nft.check("script");
  assertEquals(calls, ["nft -f - < script", "nft -c -f - < script"]);
});

/** Programs that have been started; each ends after its input. */
function started() {
  const inputs: Promise<string>[] = [];
  const nft = new Nft({
    run: async (argv, stdin = "") => {
      const input = Array.fromAsync(typeof stdin === "string" ? [stdin] : stdin);
      inputs.push(input.then((pieces) => `${argv.join(" ")} < ${pieces.join("")}`));
      await input;
      return { code: 0, stdout: "", stderr: "" };
    },
  });
  return { nft, inputs };
}

const CHANGE = "add element inet signpost services4 { 10.96.0.1 . tcp . 80 : goto x }\n";

Deno.test("an nft waits for the next script, until the end", async () => {
  const { nft, inputs } = started();
  const daemon = new AbortController();
  nft.keepReady(daemon.signal);
  assertEquals(inputs.length, 1);
  await nft.commit(CHANGE);
  assertStringIncludes(await inputs[0] ?? "", `nft -t -f - < ${CHANGE}`);
  assertEquals(inputs.length, 2);
  daemon.abort();
  assertEquals(await inputs[1], "nft -t -f - < ");
  assertEquals(inputs.length, 2);
});

Deno.test("no nft waits after the end", () => {
  const { nft, inputs } = started();
  nft.keepReady(AbortSignal.abort());
  assertEquals(inputs, []);
});

Deno.test("two scripts at once have an nft each", async () => {
  const { nft, inputs } = started();
  const daemon = new AbortController();
  nft.keepReady(daemon.signal);
  await Promise.all([nft.commit(CHANGE), nft.commit(`${CHANGE}# second\n`)]);
  daemon.abort();
  const scripts = await Promise.all(inputs);
  assertEquals(scripts.filter((each) => each.includes("# second")).length, 1);
  assertEquals(scripts.filter((each) => each.includes(CHANGE)).length, 2);
});

Deno.test("an nft that could not be started in advance is started for the script", async () => {
  const { promise, reject } = Promise.withResolvers<ProcessResult>();
  const runs: (() => Promise<ProcessResult>)[] = [
    () => promise,
    () => Promise.resolve({ code: 0, stdout: "", stderr: "" }),
    () => promise,
  ];
  const nft = new Nft({ run: () => runs.shift()?.() ?? promise });
  nft.keepReady(new AbortController().signal);
  reject(new ProgramFailedError("nft", "not-started", "cannot be started now"));
  await promise.catch(() => {});
  await nft.commit(CHANGE);
  assertEquals(runs, []);
});

Deno.test("a refused script is an ApplyError with what nft said as its cause", async () => {
  const stderr = "/dev/stdin:1:1-2: Error: Could not process rule: File exists\n";
  const { nft } = fake({ code: 1, stderr });
  for (const attempt of [nft.apply("x"), nft.check("x")]) {
    const error = await assertRejects(() => attempt, ApplyError);
    assertEquals([error.failure, error.cause], ["conflict", stderr]);
  }
});

Deno.test("a missing program is an ApplyError that says how to get it", async () => {
  const nft = new Nft({ run: () => Promise.reject(new ProgramMissingError("nft")) });
  const error = await assertRejects(() => nft.apply("x"), ApplyError);
  assertEquals(error.failure, "program-missing");
  assertStringIncludes(error.message, "package nftables");
});

Deno.test("a script that the kernel refused is not given to it twice", async () => {
  const calls: string[] = [];
  const nft = new Nft({
    run: (argv) => {
      calls.push(argv.join(" "));
      const stderr = "/dev/fd/0:1:1-9: Error: Could not process rule: File exists\n";
      return Promise.resolve({ code: 1, stdout: "", stderr });
    },
  });
  const error = await assertRejects(() => nft.stream(() => ["x"]), ApplyError);
  assertEquals([error.failure, calls], ["conflict", ["nft -f /dev/fd/0"]]);
});

Deno.test("an nft that was killed is not reported as a missing one", async () => {
  for (const reason of ["was ended by the signal SIGKILL", "cannot be started now: EMFILE"]) {
    const failure = new ProgramFailedError("nft", "signal", reason);
    const nft = new Nft({ run: () => Promise.reject(failure) });
    for (const attempt of [nft.apply("x"), nft.stream(() => ["x"]), nft.listTable()]) {
      const error = await assertRejects(() => attempt, ApplyError);
      assertEquals([error.failure, error.message], ["program-failed", `nft ${reason}`]);
    }
  }
});

Deno.test("an nft that crashes names the tables on which it crashes", async () => {
  const chains = "table ip good {\n}\ntable inet hostfw {\n\tchain input {\n\t}\n}\n" +
    "table ip docker {\n}\n";
  const crashing = (pattern: RegExp) =>
    new Nft({
      run: (argv) => {
        const command = argv.join(" ");
        if (pattern.test(command)) {
          return Promise.reject(new ProgramFailedError("nft", "crash", "crashed (SIGSEGV)"));
        }
        const stdout = command.endsWith("chains") ? chains : "nftables v1.0.6 (Lester Gooch #5)";
        return Promise.resolve({ code: 0, stdout, stderr: "" });
      },
    });
  const foreign = crashing(/ -f |--check|hostfw|docker/);
  const found = await foreign.findUnreadable();
  assertEquals([found?.severity, found?.where], ["error", "table inet hostfw, table ip docker"]);
  const error = await assertRejects(() => foreign.apply("x"), ApplyError);
  assertEquals(error.failure, "unreadable");
  assertStringIncludes(
    error.message,
    "nft 1.0.6 crashes on table inet hostfw, table ip docker, so signpost cannot write rules",
  );
  const other = await assertRejects(() => crashing(/ -f /).apply("x"), ApplyError);
  assertEquals([other.failure, other.message], ["program-failed", "nft crashed (SIGSEGV)"]);
});

Deno.test("sets that nft crashes on are not listed", async () => {
  const fail = (failure: "crash" | "signal" | "timeout") =>
    new Nft({
      run: ([, ...args]) =>
        args.includes("sets")
          ? Promise.reject(new ProgramFailedError("nft", failure, failure))
          : Promise.resolve({ code: 0, stdout: "", stderr: "" }),
    });
  assertEquals([await fail("signal").listSets(), await fail("crash").listSets()], ["", ""]);
  await assertRejects(() => fail("timeout").listSets(), ApplyError);
});

Deno.test("an error that is none of nft's is passed on", async () => {
  const nft = new Nft({ run: () => Promise.reject(new RangeError("a defect")) });
  await assertRejects(() => nft.apply("x"), RangeError);
});

Deno.test("the version is read from what nft prints", async () => {
  const versions: readonly (readonly [printed: string, version: string])[] = [
    ["nftables v1.0.6 (Lester Gooch #5)\n", "1.0.6"],
    ["nftables v1.1.3 (Commodore Bullmoose #4)\n", "1.1.3"],
    ["nftables v0.9 (x)\n", "0.9"],
    ["something else\n", ""],
  ];
  for (const [stdout, version] of versions) {
    assertEquals(await fake({ stdout }).nft.version(), version);
  }
});

Deno.test("all that lists the kernel's state may print as much as a large table needs", async () => {
  const limits: number[] = [];
  const nft = new Nft({
    run: (argv) => {
      limits.push(maxOutput(argv));
      return Promise.resolve({ code: 0, stdout: "", stderr: "" });
    },
  });
  await nft.listSets();
  await nft.listSet({ kind: "map", name: "services4" });
  await nft.listTable();
  await nft.listTables();
  await nft.listStructure();
  await nft.listRuleset();
  assertEquals(new Set(limits), new Set([maxOutput(["cat"])]));
  await nft.version();
  assertEquals(limits.at(-1), 16);
});

Deno.test("a missing table has no sets", async () => {
  const { nft } = fake({ code: 1, stderr: "Error: No such file or directory\n" });
  assertEquals(await nft.listSets(), "");
});

Deno.test("the kernel's own refusals are classified", async () => {
  await using kernel = await Kernel.create();
  const cases: readonly (readonly [script: string, failure: ApplyFailure])[] = [
    ["delete table inet signpost", "conflict"],
    ["add table inet signpost; create table inet signpost", "conflict"],
    ["add table inet x y z", "not-supported"],
    ["table inet x { chain a {\n }\n chain b {\n jump a\n }\n }\n delete chain inet x a\n", "busy"],
  ];
  for (const [script, failure] of cases) {
    const error = await assertRejects(() => kernel.nft.apply(script), ApplyError, "", script);
    assertEquals(error.failure, failure, `${script}: ${error.message}`);
  }
  assertEquals(await kernel.nft.listTables(), []);
});

Deno.test("chains, sets and maps of our table are listed, with the number of rules", async () => {
  await using kernel = await Kernel.create();
  assertEquals([...await kernel.ruleCounts()], []);
  await kernel.script(
    "table inet signpost { set a-1 { typeof ip saddr; elements = { 10.0.0.1 }; }; " +
      "map b/x { typeof ip saddr : verdict; }; chain c.d { ip saddr { 10.0.0.1, 10.0.0.2 } accept; }; " +
      "chain e { type nat hook output priority 0; ip daddr @a-1 drop; accept; }; chain f { }; }\n" +
      "table inet other { set d { typeof ip saddr; }; }\n",
  );
  assertEquals(
    [...await kernel.ruleCounts()].sort(),
    [["a-1", 0], ["b/x", 0], ["c.d", 1], ["e", 2], ["f", 0]],
  );
  assertEquals(await kernel.nft.listTables(), ["inet signpost", "inet other"]);
  assertEquals(await kernel.nft.listHookedTables(), ["inet signpost"]);
});
