import { assertEquals } from "@std/assert";
import { messageOf } from "../../../lib/model/values/errors.ts";

Deno.test("whatever is thrown has a message", () => {
  assertEquals(messageOf(new TypeError("no such file")), "no such file");
  assertEquals(messageOf("stop"), "stop");
  assertEquals(messageOf(undefined), "undefined");
});
