/**
 * Texts in documents that a task writes: between two marks, which stay.
 *
 * @module
 */

/** The marks around a text, by its name. */
export function marks(name: string): readonly [begin: string, end: string] {
  return [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`];
}

/**
 * Puts a text, of whole lines, between a document's marks.
 *
 * @throws {Error} where the marks are not there
 */
export function replaceMarked(
  document: string,
  { name, text }: { readonly name: string; readonly text: string },
): string {
  const [begin, end] = marks(name);
  const [from, to] = [document.indexOf(begin), document.indexOf(end)];
  if (from < 0 || to < from) {
    throw new Error(`the document has no lines ${begin} and ${end} for the table`);
  }
  return `${document.slice(0, from)}${begin}\n${text}${document.slice(to)}`;
}
