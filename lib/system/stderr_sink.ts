/** Adapter: log lines to standard error. */
import process from "node:process";

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

/** Returns true if standard error is still the stream of JOURNAL_STREAM, which children inherit (systemd.exec(5)). */
export function stderrIsJournal(journalStream: string | undefined): boolean {
  if (journalStream === undefined) return false;
  try {
    const { dev, ino } = process.getBuiltinModule("node:fs").fstatSync(2);
    return journalStream === `${dev}:${ino}`;
  } catch {
    return false;
  }
}
