import { assertEquals } from "@std/assert";
import { Mailbox } from "../../../lib/daemon/start/mailbox.ts";

Deno.test("messages wait for their recipient, and keep their order", () => {
  const mailbox = new Mailbox<string[]>();
  mailbox.send((list) => list.push("first"));
  mailbox.send((list) => list.push("second"));
  const list: string[] = [];
  mailbox.open(list);
  assertEquals(list, ["first", "second"]);
  mailbox.send((list) => list.push("third"));
  assertEquals(list, ["first", "second", "third"]);
});
