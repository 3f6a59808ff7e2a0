import { assertEquals } from "@std/assert";
import { checkUnreadableTables } from "../../lib/findings/system.ts";
import { factsOf } from "./facts.ts";

function said(unreadable: readonly string[]): string[] {
  const ruleset = { nft: "1.0.6", unreadable, chains: [] };
  const facts = factsOf([], { facts: { ruleset } });
  return checkUnreadableTables(facts).map(({ severity, what }) => `${severity}: ${what}`);
}

Deno.test("tables on which nft crashes are an error that names them", () => {
  assertEquals(said(["inet firewalld", "ip docker"]), [
    "error: nft 1.0.6 crashes on table inet firewalld, table ip docker, so no rule can be written",
  ]);
  assertEquals(said([]), []);
});
