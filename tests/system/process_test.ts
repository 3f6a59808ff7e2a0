import { assertEquals, assertRejects } from "@std/assert";
import { ProgramMissingError } from "../../lib/model/ports.ts";
import { DenoProcessRunner } from "../../lib/system/process.ts";

Deno.test("a program gets its input and gives its output whole, at any length and in any script", async () => {
  const runner = new DenoProcessRunner();
  const texts = ["", "a", "é".repeat(100_000), `x${"😀".repeat(50_000)}`, "😀".repeat(50_000)];
  for (const text of texts) {
    const { code, stdout } = await runner.run(["cat"], text);
    assertEquals(code, 0);
    assertEquals(stdout === text, true, `${text.slice(0, 2)}, ${text.length} long`);
  }
});

Deno.test("exit code, standard output and standard error are told apart", async () => {
  const result = await new DenoProcessRunner().run(["sh", "-c", "echo out; echo err >&2; exit 3"]);
  assertEquals(result, { code: 3, stdout: "out\n", stderr: "err\n" });
});

Deno.test("a program that does not read its input is judged by its exit code", async () => {
  const { code } = await new DenoProcessRunner().run(["true"], "x".repeat(1_000_000));
  assertEquals(code, 0);
});

Deno.test("pieces are made while the program reads, and one that cannot be made ends its input", async () => {
  const runner = new DenoProcessRunner();
  function* pieces(good: number) {
    for (let i = 0; i < good; i++) yield `${i} `.repeat(10_000);
    if (good < 3) throw new RangeError("a defect");
  }
  const { stdout } = await runner.run(["cat"], pieces(3));
  assertEquals(stdout === [..."012"].map((each) => `${each} `.repeat(10_000)).join(""), true);
  await assertRejects(() => runner.run(["cat"], pieces(2)), RangeError);
  assertEquals((await runner.run(["true"], pieces(3))).code, 0);
});

Deno.test("a program that is not there is named", async () => {
  const error = await assertRejects(
    () => new DenoProcessRunner().run(["no-such-program"]),
    ProgramMissingError,
  );
  assertEquals(error.program, "no-such-program");
});
