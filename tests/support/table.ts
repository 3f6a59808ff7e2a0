/** Reads tables of texts: a case a line. */

/** Returns the cells of each line, which ` => ` divides; `\n` in a cell is the end of a line. */
export function casesOf(table: string): (readonly [string, string, string, string])[] {
  return table.trim().split("\n").map((line) => {
    const [first = "", second = "", third = "", fourth = ""] = line.trim().split(" => ")
      .map((cell) => cell.replaceAll("\\n", "\n"));
    return [first, second, third, fourth] as const;
  });
}

/** Splits a list or a command line into its words; quotes hold words together. */
export function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? "");
}
