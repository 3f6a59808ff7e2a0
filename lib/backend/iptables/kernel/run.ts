/**
 * Running programs that may not be installed.
 *
 * @module
 */
import {
  type ProcessResult,
  type ProcessRunner,
  ProgramMissingError,
} from "../../../model/ports.ts";

/** What the program left, or `undefined` where it is not installed. */
export async function runIfThere(
  runner: ProcessRunner,
  argv: readonly [string, ...string[]],
): Promise<ProcessResult | undefined> {
  try {
    return await runner.run(argv);
  } catch (error) {
    if (error instanceof ProgramMissingError) return undefined;
    throw error;
  }
}
