import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { html } from "../../../lib/observe/page/html.ts";

Deno.test("text in a template is escaped, in content and in attributes", () => {
  const evil = `"><script>alert('&')</script>`;
  assertEquals(
    html`<p title="${evil}">${evil}</p>`.toString(),
    '<p title="&quot;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;">' +
      "&quot;&gt;&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;</p>",
  );
});

Deno.test("pieces, lists and numbers are put in as they are, and nothing is nothing", () => {
  const items = ["a", "b<"].map((item) => html`<li>${item}</li>`);
  assertEquals(
    html`<ul>${items}</ul>${7}${undefined}${[]}`.toString(),
    "<ul><li>a</li><li>b&lt;</li></ul>7",
  );
});

Deno.test("an object that prints markup is refused: only the tag makes pieces of a page", () => {
  const forged = { toString: () => "<b>" } as unknown as string;
  assertThrows(() => html`${forged}`, TypeError);
});

Deno.test("characters that turn text around or control a terminal are replaced", () => {
  assertEquals(html`${"a\u202eb\u0000c\u0085d"}`.toString(), "a\ufffdb\ufffdc\ufffdd");
});

Deno.test("no text whatever makes markup", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    const escaped = html`${text}`.toString();
    assertEquals(/[<>"']|&(?!(?:amp|lt|gt|quot|#39);)/.test(escaped), false);
  }));
});
