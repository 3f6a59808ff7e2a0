import { assertEquals } from "@std/assert";
import { chainPlace, parsePlace, TABLE_PLACE } from "../../../lib/backend/nftables/compare.ts";

Deno.test("the place of a difference is read as it was written", () => {
  assertEquals(parsePlace(TABLE_PLACE), { type: "table", name: "" });
  assertEquals(parsePlace(chainPlace("services")), { type: "chain", name: "services" });
  assertEquals(parsePlace("services4"), { type: "set", name: "services4" });
});
