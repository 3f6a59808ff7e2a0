import { assertEquals } from "@std/assert";

Deno.test("a segmenter that is made when it is used does as the real one", async () => {
  const { Segmenter } = Intl;
  await import("../../lib/system/segmenter.ts");
  const text = "e\u0301 \u{1f44d}\u{1f3fd} ok";
  for (const granularity of ["grapheme", "word"] as const) {
    const real = new Segmenter("en", { granularity });
    const lazy = new Intl.Segmenter("en", { granularity });
    assertEquals([...lazy.segment(text)], [...real.segment(text)]);
    assertEquals(lazy.resolvedOptions(), real.resolvedOptions());
  }
  const locales = ["en", "de", "tlh"];
  assertEquals(Intl.Segmenter.supportedLocalesOf(locales), Segmenter.supportedLocalesOf(locales));
});
