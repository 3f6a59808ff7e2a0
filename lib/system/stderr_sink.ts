/** Adapter: log lines to standard error. */

/** Makes a sink for `createLogger` that writes to standard error. A line that cannot be written is lost. */
export function stderrSink(): (line: string) => void {
  const encoder = new TextEncoder();
  return (line) => {
    let rest = encoder.encode(line);
    try {
      while (rest.length > 0) rest = rest.subarray(Deno.stderr.writeSync(rest));
    } catch {
      // No one is left to tell.
    }
  };
}
