import { assertEquals, assertInstanceOf, assertMatch, assertRejects } from "@std/assert";
import { ProgramFailedError, ProgramMissingError } from "../../lib/model/ports/ports.ts";
import { DenoProcessRunner, spawnError } from "../../lib/system/process.ts";
import { eventually } from "../support/eventually.ts";
import { runWithFewDescriptors } from "../support/few_descriptors.ts";
import { makeFolder } from "../support/folder.ts";

Deno.test("a program's input and output are whole at any length", async () => {
  const runner = new DenoProcessRunner();
  const texts = ["", "a", "é".repeat(100_000), `x${"😀".repeat(50_000)}`, "😀".repeat(50_000)];
  for (const text of texts) {
    const { code, stdout } = await runner.run(["cat"], text);
    assertEquals(code, 0);
    assertEquals(stdout === text, true, `${text.slice(0, 2)}, ${text.length} long`);
  }
});

Deno.test("exit code, standard output and standard error are separate", async () => {
  const result = await new DenoProcessRunner().run(["sh", "-c", "echo out; echo err >&2; exit 3"]);
  assertEquals(result, { code: 3, stdout: "out\n", stderr: "err\n" });
});

Deno.test("a program that does not read its input is judged by its exit code", async () => {
  const { code } = await new DenoProcessRunner().run(["true"], "x".repeat(1_000_000));
  assertEquals(code, 0);
});

Deno.test("pieces are made while the program reads", async () => {
  const runner = new DenoProcessRunner();
  async function* pieces(good: number) {
    for (let i = 0; i < good; i++) yield await Promise.resolve(`${i} `.repeat(10_000));
    if (good < 3) throw new RangeError("a defect");
  }
  const { stdout } = await runner.run(["cat"], pieces(3));
  assertEquals(stdout === [..."012"].map((each) => `${each} `.repeat(10_000)).join(""), true);
  await assertRejects(() => runner.run(["cat"], pieces(2)), RangeError);
  assertEquals((await runner.run(["true"], pieces(3))).code, 0);
});

Deno.test("a program of the working directory is not run, also without PATH", async () => {
  await using folder = await makeFolder("process");
  await Deno.writeTextFile(`${folder.path}/nft`, "#!/bin/sh\necho not nft\n", { mode: 0o755 });
  const script = `
    import { DenoProcessRunner } from "${new URL(
    "../../lib/system/process.ts",
    import.meta.url,
  )}";
    Deno.env.delete("PATH");
    console.log(await new DenoProcessRunner().run(["nft"]).catch(({ name }) => name));
  `;
  const runner = new DenoProcessRunner();
  const { stdout } = await runner.run([
    "sh",
    "-c",
    `cd ${folder.path} && exec "$0" run -qA --no-check --ext=js -`,
    Deno.execPath(),
  ], script);
  assertEquals(stdout, "ProgramFailedError\n");
});

Deno.test("a program that is not there is named", async () => {
  const error = await assertRejects(
    () => new DenoProcessRunner().run(["no-such-program"]),
    ProgramMissingError,
  );
  assertEquals(error.program, "no-such-program");
});

const SHORT = { time: 1_000, timePerMebibyte: 0 };

Deno.test("a program that hangs is killed at its time limit", async () => {
  await using hanging = await hangingPrograms(["conntrack", "iptables-save", "sysctl", "choom"]);
  const runner = new DenoProcessRunner(SHORT);
  for (const path of hanging.paths) {
    const error = await assertRejects(() => runner.run([path]), ProgramFailedError);
    assertEquals(error.failure, "timeout");
    assertEquals(error.message, `${path} did not end within 1 s and was killed`);
    await hanging.untilGone(path);
  }
});

Deno.test("one that hangs without reading its input is killed, too", async () => {
  await using hanging = await hangingPrograms(["nft"]);
  const runner = new DenoProcessRunner(SHORT);
  const [nft = ""] = hanging.paths;
  for (const input of ["x".repeat(1_000_000), ["x".repeat(200_000), "y".repeat(200_000)]]) {
    const error = await assertRejects(
      () => runner.run([nft, "-f", "-"], input),
      ProgramFailedError,
    );
    assertEquals(error.failure, "timeout");
    await hanging.untilGone(nft);
  }
});

Deno.test("a program has more time for a long input", async () => {
  const runner = new DenoProcessRunner({ time: 100, timePerMebibyte: 600_000 });
  const script = "cat > /dev/null; sleep 0.4; echo done";
  const { stdout } = await runner.run(["sh", "-c", script], "x".repeat(2 ** 20));
  assertEquals(stdout, "done\n");
});

Deno.test("the time in which its input is made is not the program's", async () => {
  const limits = { time: 300, timePerMebibyte: 0 };
  async function* input() {
    yield "first, ";
    await new Promise((resolve) => setTimeout(resolve, 900));
    yield "last";
  }
  const { stdout } = await new DenoProcessRunner(limits).run(["cat"], input());
  assertEquals(stdout, "first, last");
  const hanging = new DenoProcessRunner(limits).run(["sh", "-c", "cat; exec sleep 100"], input());
  const error = await assertRejects(() => hanging, ProgramFailedError);
  assertEquals(error.failure, "timeout");
});

Deno.test("the error of a program that a signal ended names the signal", async () => {
  const runner = new DenoProcessRunner();
  for (const [signal, failure] of [["SIGKILL", "signal"], ["SIGSEGV", "crash"]] as const) {
    const error = await assertRejects(
      () => runner.run(["sh", "-c", `kill -${signal.slice(3)} $$`]),
      ProgramFailedError,
    );
    assertEquals(error.failure, failure);
    assertMatch(error.message, new RegExp(`^sh (?:was ended by|crashed).*${signal}`));
  }
});

Deno.test("a program that prints more than its limit is killed", async () => {
  const error = await assertRejects(
    () => new DenoProcessRunner().run(["sh", "-c", "exec cat /dev/zero"]),
    ProgramFailedError,
  );
  assertEquals(error.failure, "output");
  assertEquals(error.message, "sh printed more than 16 MiB and was killed");
});

Deno.test("what lists the kernel's state may print more", async () => {
  const { stdout } = await new DenoProcessRunner().run(["cat"], "x".repeat(17 * 2 ** 20));
  assertEquals(stdout.length, 17 * 2 ** 20);
});

Deno.test("of an endless standard error, only the beginning is kept", async () => {
  const script = "head -c 200000000 /dev/zero | tr '\\0' e >&2; exit 1";
  const { code, stderr } = await new DenoProcessRunner().run(["sh", "-c", script]);
  assertEquals(code, 1);
  assertEquals(stderr.length < 200_000, true, `${stderr.length} characters`);
  assertMatch(stderr, /^e+$/);
});

Deno.test("no descriptors, processes or memory left is not a program that is missing", () => {
  for (
    const [name, missing] of [["EMFILE", false], ["EAGAIN", false], ["ENOMEM", false]] as const
  ) {
    const error = spawnError("nft", Object.assign(new Error(`${name} it was`), { code: name }));
    assertEquals(error instanceof ProgramMissingError, missing);
    assertEquals(error.message, `nft cannot be started now: ${name} it was`);
  }
  assertInstanceOf(spawnError("nft", new Deno.errors.NotFound("no")), ProgramMissingError);
});

Deno.test("a program starts once a process has free descriptors again", async () => {
  const module = new URL("../../lib/system/process.ts", import.meta.url).href;
  const script = `
    import { DenoProcessRunner } from "${module}";
    const runner = new DenoProcessRunner();
    const told = () => runner.run(["true"]).then(({ code }) => code, (error) => error.failure);
    await told();
    useUp();
    console.log(await told());
    for (const file of held) file.close();
    console.log(await told());
  `;
  const { stdout, stderr } = await runWithFewDescriptors(script);
  assertEquals(stdout, "not-started\n0\n", stderr);
});

/** Programs that never end, each with a child of its own that holds its pipes. */
async function hangingPrograms(names: readonly string[]) {
  const folder = await makeFolder("hanging");
  const paths = names.map((name) => `${folder.path}/${name}`);
  for (const path of paths) {
    const script =
      `#!/bin/sh\necho $$ > ${path}.pid\nsleep 1000 &\necho $! > ${path}.child\nwait\n`;
    await Deno.writeTextFile(path, script, { mode: 0o755 });
  }
  const pidOf = async (file: string) => Number(await Deno.readTextFile(file));
  return {
    paths,
    untilGone: async (path: string) => {
      const pid = await pidOf(`${path}.pid`);
      await eventually(`${path} is gone`, async () => {
        const status = await Deno.readTextFile(`/proc/${pid}/status`).catch(() => "");
        return status === "" || /^State:\s+Z/m.test(status);
      });
      Deno.kill(await pidOf(`${path}.child`), "SIGKILL");
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}
