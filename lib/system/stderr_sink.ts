/**
 * Adapter: log lines to standard error.
 * @module
 */
import process from "node:process";

/**
 * Makes a sink for `createLogger` that writes to standard error.
 *
 * A line that cannot be written (the reader has gone, the disk is full) is lost: a node proxy does not stop for its
 * log.
 */
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

/**
 * Returns true if standard error goes to journald, which then reads priorities at the beginning of lines.
 * @param journalStream JOURNAL_STREAM of the environment: device and inode, `8:1234`; it is inherited, so it counts
 *   only if standard error is still that stream (systemd.exec(5))
 */
export function stderrIsJournal(journalStream: string | undefined): boolean {
  if (journalStream === undefined) return false;
  try {
    const { dev, ino } = process.getBuiltinModule("node:fs").fstatSync(2);
    return journalStream === `${dev}:${ino}`;
  } catch {
    return false;
  }
}
