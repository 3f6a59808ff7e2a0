/** Finds the name that a user may have meant. */
import { levenshteinDistance } from "@std/text/levenshtein-distance";

/** Names the nearest candidate as ` (did you mean …?)`; `""` if all differ too much, or the name is not text. */
export function didYouMean(name: unknown, candidates: Iterable<string>, prefix = ""): string {
  const found = typeof name === "string" ? nearest(name, candidates) : undefined;
  return found === undefined ? "" : ` (did you mean ${prefix}${found}?)`;
}

/** Returns the candidate that differs least from a name, in three letters at most. */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  let found: string | undefined;
  let least = Math.min(4, Math.ceil(name.length / 2));
  const typed = name.toLowerCase();
  const letters = lettersOf(typed);
  for (const candidate of candidates) {
    // The difference in length is a lower bound of the distance, which takes long to compute.
    if (Math.abs(candidate.length - name.length) >= least) continue;
    const other = candidate.toLowerCase();
    // Letters in another order count as one mistake.
    const isMixed = other.length === typed.length && lettersOf(other) === letters;
    const distance = isMixed ? 1 : levenshteinDistance(typed, other);
    if (distance < least) [found, least] = [candidate, distance];
  }
  return found;
}

function lettersOf(text: string): string {
  return [...text].sort().join("");
}
