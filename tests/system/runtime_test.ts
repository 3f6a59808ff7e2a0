import { assertEquals } from "@std/assert";
import { existsSync } from "node:fs";
import { runWithFewDescriptors } from "../support/few_descriptors.ts";
import { systemRuntime } from "../../lib/system/runtime.ts";
import { run } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";
import { signpostCommand } from "../support/signpost.ts";
import { wordsOf } from "../support/table.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

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
  await using folder = await makeFolder("runtime");
  const { readRegularFile } = systemRuntime();
  for (const [name, size] of [["good", 1024 * 1024], ["long", 1024 * 1024 + 1]] as const) {
    await Deno.writeTextFile(`${folder.path}/${name}`, "a".repeat(size));
  }
  await Deno.symlink("good", `${folder.path}/link`);
  await new Deno.Command("mkfifo", { args: [`${folder.path}/pipe`] }).output();
  assertEquals((await readRegularFile(`${folder.path}/link`)).length, 1024 * 1024);
  const message = (path: string) =>
    readRegularFile(path).then(() => "read", ({ message }) => message);
  assertEquals(await message(`${folder.path}/long`), "it has 1048577 bytes, more than 1048576");
  for (const path of [`${folder.path}/pipe`, "/dev/zero", folder.path]) {
    assertEquals(await message(path), "it is not a regular file");
  }
});

for (const protocol of ["tcp", "udp"] as const) {
  Deno.test(`a ${protocol} packet that cannot be sent is not an error`, async () => {
    // TEST-NET-1 (RFC 5737): no machine has this address.
    const [source, address] = ["192.0.2.1", "127.0.0.1"];
    await systemRuntime().sendProbe({ source, address, port: 9, protocol, timeout: 1_000 });
  });
}

/** Runs a script with signpost's own permissions. @returns the value that it prints */
async function runPermitted(script: string, within = ""): Promise<unknown> {
  const flags = ["-qP", "--config", `${ROOT}deno.json`];
  const stdin = `import { systemRuntime } from "${ROOT}lib/system/runtime.ts"; ${script}`;
  return JSON.parse(
    await run([...wordsOf(within), Deno.execPath(), "run", ...flags, "-"], { stdin }),
  );
}

Deno.test("the processors are those that the kernel lists, not this process's share of them", async () => {
  const online = (await Deno.readTextFile("/sys/devices/system/cpu/online")).trim();
  const listed = online.split(",").reduce((sum, range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return sum + last - first + 1;
  }, 0);
  assertEquals(await runPermitted("console.log(systemRuntime().cpus());", "taskset -c 0"), listed);
});

Deno.test("with signpost's own permissions it is known whether the kernel has IPv6", async () => {
  const known = await runPermitted("console.log(systemRuntime().hasIpv6());");
  assertEquals(known, existsSync("/proc/net/if_inet6"));
});

Deno.test("without free descriptors the machine has the addresses that it had before", async () => {
  const module = new URL("../../lib/system/runtime.ts", import.meta.url).href;
  const script = `
    import { systemRuntime } from "${module}";
    const runtime = systemRuntime();
    const before = JSON.stringify(runtime.addresses());
    useUp();
    let then = "";
    try { then = JSON.stringify(runtime.addresses()); } catch (error) { then = String(error); }
    for (const file of held) file.close();
    console.log(then === before ? "the same" : then);
  `;
  const { stdout, stderr } = await runWithFewDescriptors(script);
  assertEquals(stdout, "the same\n", stderr);
});

Deno.test("a private file replaces a link and a readable file", async () => {
  await using folder = await makeFolder("private");
  const [target, link] = [`${folder.path}/target`, `${folder.path}/link`];
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
  assertEquals([...Deno.readDirSync(folder.path)].length, 2);
});
