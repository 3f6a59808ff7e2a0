import { assertEquals, assertStringIncludes } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import {
  compileArguments,
  ENVIRONMENT,
  type Permissions,
  targetOf,
  V8_FLAGS,
} from "../../tools/compile/arguments.ts";

Deno.test("a binary gets only the permissions of deno.json", () => {
  const permissions = config.permissions.default as unknown as Permissions;
  const args = compileArguments({
    target: "aarch64-unknown-linux-gnu",
    jitless: false,
    permissions,
    output: "/tmp/dist/signpost",
  });
  const { read, env, run, write, sys } = config.permissions.default;
  assertEquals(args, [
    "compile",
    "--quiet",
    "--no-check",
    "--no-lock",
    "--config=compile.json",
    "--target=aarch64-unknown-linux-gnu",
    "--output=/tmp/dist/signpost",
    `--v8-flags=--max-old-space-size=1024,${V8_FLAGS}`,
    "--no-prompt",
    "--allow-read",
    `--deny-read=${read.deny.join(",")}`,
    "--allow-net",
    `--allow-env=${env.allow.join(",")}`,
    "--ignore-env",
    `--allow-sys=${sys.join(",")}`,
    `--allow-run=${run.join(",")}`,
    `--allow-write=${write.join(",")}`,
    "bundle/main.js",
  ]);
});

Deno.test("the task start runs V8 as the binary does", () => {
  assertStringIncludes(config.tasks.start.command, `--v8-flags=${V8_FLAGS} `);
});

Deno.test("each way to start the daemon gives memory back", async () => {
  const root = new URL("../../", import.meta.url);
  const files = ["deno.json", "systemd/signpost.service", "examples/install/openrc/signpost"];
  for (const file of files) {
    const text = await Deno.readTextFile(new URL(file, root));
    assertStringIncludes(text, ENVIRONMENT.join(" "), file);
  }
});

Deno.test("the target of a runtime is read from its header", () => {
  const header = (machine: number) => {
    const bytes = new Uint8Array(64);
    bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
    bytes[18] = machine;
    return bytes;
  };
  assertEquals(targetOf(header(62)), "x86_64-unknown-linux-gnu");
  assertEquals(targetOf(header(183)), "aarch64-unknown-linux-gnu");
  assertEquals(targetOf(header(243)), undefined);
  assertEquals(targetOf(new TextEncoder().encode("#!/bin/sh\n")), undefined);
  assertEquals(targetOf(new Uint8Array()), undefined);
});
