/**
 * HTML and SVG that cannot be broken out of: text becomes part of a page only through the tag
 * `html`, which escapes it.
 *
 * @module
 */
import { replaceUnsafe } from "../../model/values/text.ts";

/** Markup. The class does not leave this module: nothing else can make one out of text. */
class Markup {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** A piece of a page; `toString` gives the markup. */
export type Html = Markup;

/** What may stand in a template: text and numbers are escaped, lists joined, nothing is nothing. */
export type HtmlValue = Html | string | number | undefined | readonly HtmlValue[];

/**
 * A piece of a page. Attributes' values stand in double quotes.
 *
 * @example
 * ```ts
 * html`<p title="${untrusted}">${untrusted}</p>`
 * ```
 */
export function html(literals: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  return new Markup(literals.map((literal, i) => literal + render(values[i])).join(""));
}

function render(value: HtmlValue): string {
  if (value === undefined) return "";
  if (value instanceof Markup) return value.toString();
  if (typeof value === "string" || typeof value === "number") return escape(String(value));
  return value.map(render).join("");
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Characters that a page may not have, or that turn text around, show as a replacement character. */
function escape(text: string): string {
  return replaceUnsafe(text, "\ufffd")
    .replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}
