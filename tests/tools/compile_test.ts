import { assertEquals, assertStringIncludes } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import {
  compileArguments,
  permissionFlags,
  targetOf,
  V8_FLAGS,
} from "../../tools/compile/arguments.ts";

Deno.test("a binary gets the permissions of deno.json, and no others", () => {
  const permissions = config.permissions.default as Record<string, true | string[]>;
  const args = compileArguments({
    target: "aarch64-unknown-linux-gnu",
    permissions,
    output: "/tmp/dist/signpost",
  });
  const { run, write, sys } = config.permissions.default;
  assertEquals(args, [
    "compile",
    "--frozen",
    "--bundle",
    "--minify",
    "--config=deno.json",
    "--target=aarch64-unknown-linux-gnu",
    "--output=/tmp/dist/signpost",
    `--v8-flags=--max-old-space-size=1024,${V8_FLAGS}`,
    "--no-prompt",
    "--allow-read",
    "--allow-net",
    "--allow-env",
    `--allow-sys=${sys.join(",")}`,
    `--allow-run=${run.join(",")}`,
    `--allow-write=${write.join(",")}`,
    "main.ts",
  ]);
});

Deno.test("the task start runs V8 as the binary does", () => {
  assertStringIncludes(config.tasks.start.command, `--v8-flags=${V8_FLAGS} `);
});

Deno.test("a permission with a list is limited to it", () => {
  assertEquals(permissionFlags({ read: true, run: ["nft", "conntrack"] }), [
    "--allow-read",
    "--allow-run=nft,conntrack",
  ]);
});

Deno.test("the target of a runtime is read from its header, and other files have none", () => {
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
