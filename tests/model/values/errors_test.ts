import { assertEquals } from "@std/assert";
import { messageOf } from "../../../lib/model/values/errors.ts";

Deno.test("whatever is thrown has a message", () => {
  assertEquals(messageOf(new TypeError("no such file")), "no such file");
  assertEquals(messageOf("stop"), "stop");
  assertEquals(messageOf(undefined), "undefined");
});

Deno.test("a missing permission is named without a flag of Deno", () => {
  const error = new Error('Requires sys access to "ca", run again with the --allow-sys flag');
  assertEquals(messageOf(error), 'Requires sys access to "ca"');
});
