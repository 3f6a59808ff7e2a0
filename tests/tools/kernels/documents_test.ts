import { assertEquals } from "@std/assert";
import { mergeResults } from "../../../tools/kernels/documents.ts";

Deno.test("new results take the place of older ones of the same name, in the catalog's order", () => {
  const result = (name: string, version: string) => (
    { name, version, note: "", steps: [], seconds: 1 }
  );
  assertEquals(
    mergeResults(
      [result("sid", "7.1"), result("bookworm", "6.1")],
      [result("sid", "7.2"), result("trixie", "6.12")],
    ).map(({ name, version }) => `${name} ${version}`),
    ["bookworm 6.1", "trixie 6.12", "sid 7.2"],
  );
});
