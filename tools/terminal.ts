/**
 * Lines for the person at the terminal.
 *
 * @module
 */

const encoder = new TextEncoder();

/** Prints a line, or an empty one, on the standard output. */
export function say(line = ""): void {
  Deno.stdout.writeSync(encoder.encode(`${line}\n`));
}

/** Returns a size as people read it. */
export function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

/** Prints a line on the standard error. */
export function complain(line: string): void {
  Deno.stderr.writeSync(encoder.encode(`${line}\n`));
}
