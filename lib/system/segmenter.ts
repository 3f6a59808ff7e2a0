/**
 * Adapter: gives engines whose `Intl.Segmenter` is a stub one that works. @optique/core measures texts
 * with it, and Deno's QuickJS engine has a `segment` that gives back the string it was given.
 *
 * Import it before @optique/core, which makes its segmenter when it is loaded.
 *
 * @module
 */

/** Code points in the place of graphemes: the same for all texts that signpost prints. */
class CodePoints {
  segment(text: string): { readonly segment: string }[] {
    return [...text].map((segment) => ({ segment }));
  }
}

const [first] = new Intl.Segmenter().segment("a");
if (first?.segment !== "a") Object.defineProperty(Intl, "Segmenter", { value: CodePoints });
