import { assertEquals } from "@std/assert";
import { ChangeFilter } from "../../../lib/model/values/change_filter.ts";

Deno.test("a value is news once, and again after another one", () => {
  const filter = new ChangeFilter();
  const values = ["refused", "refused", "timed out", "refused"];
  assertEquals(values.map((value) => filter.changed("watch", value)), [true, false, true, true]);
});

Deno.test("a cleared key is news again", () => {
  const filter = new ChangeFilter();
  filter.changed("watch", "refused");
  assertEquals(filter.clear("watch"), true);
  assertEquals(filter.clear("watch"), false);
  assertEquals(filter.changed("watch", "refused"), true);
});

Deno.test("the key that was quiet longest is forgotten when there are too many", () => {
  const filter = new ChangeFilter(2);
  for (const key of ["a", "b", "a", "c"]) filter.changed(key, "x");
  assertEquals(filter.changed("a", "x"), false);
  assertEquals(filter.changed("b", "x"), true);
});
