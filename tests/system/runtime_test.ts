import { assertEquals } from "@std/assert";
import { existsSync } from "node:fs";
import { runWithFewDescriptors } from "../support/few_descriptors.ts";
import { systemRuntime } from "../../lib/system/runtime.ts";
import { signpostCommand } from "../support/signpost.ts";

Deno.test("a reader that has seen enough of the output is not an error", async () => {
  const [program = "", ...args] = signpostCommand();
  const child = new Deno.Command(program, {
    args: [...args, "--help"],
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  await child.stdout.cancel();
  const [{ code }, stderr] = await Promise.all([child.status, new Response(child.stderr).text()]);
  assertEquals(code, 0);
  assertEquals(stderr.split("\n").filter((line) => !/Warning|^$/.test(line)), []);
});

Deno.test("a token or kubeconfig is read from a regular file of 1 MiB at most", async () => {
  const folder = await Deno.makeTempDir();
  const { readRegularFile } = systemRuntime();
  try {
    for (const [name, size] of [["good", 1024 * 1024], ["long", 1024 * 1024 + 1]] as const) {
      await Deno.writeTextFile(`${folder}/${name}`, "a".repeat(size));
    }
    await Deno.symlink("good", `${folder}/link`);
    await new Deno.Command("mkfifo", { args: [`${folder}/pipe`] }).output();
    assertEquals((await readRegularFile(`${folder}/link`)).length, 1024 * 1024);
    const message = (path: string) =>
      readRegularFile(path).then(() => "read", ({ message }) => message);
    assertEquals(await message(`${folder}/long`), "it has 1048577 bytes, more than 1048576");
    for (const path of [`${folder}/pipe`, "/dev/zero", folder]) {
      assertEquals(await message(path), "it is not a regular file");
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

for (const protocol of ["tcp", "udp"] as const) {
  Deno.test(`a ${protocol} packet that cannot be sent is not an error`, async () => {
    // TEST-NET-1 (RFC 5737): no machine has this address.
    const [source, address] = ["192.0.2.1", "127.0.0.1"];
    await systemRuntime().sendProbe({ source, address, port: 9, protocol, timeout: 1_000 });
  });
}

Deno.test("the processors are those that the kernel lists, not this process's share of them", async () => {
  const online = (await Deno.readTextFile("/sys/devices/system/cpu/online")).trim();
  const listed = online.split(",").reduce((sum, range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return sum + last - first + 1;
  }, 0);
  const root = new URL("../../", import.meta.url).pathname;
  const script =
    `import { systemRuntime } from "${root}lib/system/runtime.ts"; console.log(systemRuntime().cpus());`;
  const folder = await Deno.makeTempDir({ prefix: "signpost-cpus-" });
  try {
    await Deno.writeTextFile(`${folder}/main.ts`, script);
    const { stdout, stderr } = await new Deno.Command("taskset", {
      args: [
        ...["-c", "0", Deno.execPath(), "run", "-q", "-P"],
        ...["--config", `${root}deno.json`, `${folder}/main.ts`],
      ],
    }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    assertEquals(text(stdout), `${listed}\n`, text(stderr));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("with signpost's own permissions it is known whether the kernel has IPv6", async () => {
  const root = new URL("../../", import.meta.url).pathname;
  const folder = await Deno.makeTempDir({ prefix: "signpost-test-" });
  try {
    const script =
      `import { systemRuntime } from "${root}lib/system/runtime.ts"; console.log(systemRuntime().hasIpv6());`;
    await Deno.writeTextFile(`${folder}/main.ts`, script);
    const args = ["run", "-q", "-P", "--config", `${root}deno.json`, `${folder}/main.ts`];
    const { stdout } = await new Deno.Command(Deno.execPath(), { args, stderr: "null" }).output();
    const expected = existsSync("/proc/net/if_inet6");
    assertEquals(new TextDecoder().decode(stdout).trim(), `${expected}`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("without free descriptors the machine has the addresses that it had before", async () => {
  const module = new URL("../../lib/system/runtime.ts", import.meta.url).href;
  const script = `
    import { systemRuntime } from "${module}";
    Deno.addSignalListener("SIGTERM", () => {});
    const runtime = systemRuntime();
    const before = JSON.stringify(runtime.addresses());
    const held = [];
    try { for (;;) held.push(Deno.openSync("/dev/null")); } catch { /* none is left */ }
    let then = "";
    try { then = JSON.stringify(runtime.addresses()); } catch (error) { then = String(error); }
    for (const file of held) file.close();
    console.log(then === before ? "the same" : then);
    Deno.exit();
  `;
  const { stdout, stderr } = await runWithFewDescriptors(script);
  assertEquals(stdout, "the same\n", stderr);
});

Deno.test("a private file replaces a link and a readable file", async () => {
  const folder = await Deno.makeTempDir();
  const [target, link] = [`${folder}/target`, `${folder}/link`];
  const { writeFile } = systemRuntime();
  await Deno.writeTextFile(target, "kept", { mode: 0o644 });
  await Deno.symlink(target, link);
  await writeFile(link, new Uint8Array([1]));
  assertEquals(await Deno.readTextFile(target), "kept");
  await writeFile(target, new Uint8Array([2]));
  for (const path of [link, target]) {
    const { isSymlink, mode } = await Deno.lstat(path);
    assertEquals([isSymlink, (mode ?? 0) & 0o777], [false, 0o600]);
  }
  assertEquals([...Deno.readDirSync(folder)].length, 2);
  await Deno.remove(folder, { recursive: true });
});
