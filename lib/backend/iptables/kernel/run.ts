/**
 * Runs programs that may not be installed.
 *
 * @module
 */
import { rethrowAsApplyError } from "../../../model/kernel/dataplane.ts";
import {
  type ProcessResult,
  type ProcessRunner,
  ProgramMissingError,
} from "../../../model/ports/ports.ts";

/**
 * Returns the program's result, or `undefined` if it is not installed.
 *
 * @throws {ApplyError} if it could not run to its end
 */
export async function runIfInstalled(
  runner: ProcessRunner,
  argv: readonly [string, ...string[]],
): Promise<ProcessResult | undefined> {
  try {
    return await runner.run(argv);
  } catch (error) {
    if (error instanceof ProgramMissingError) return undefined;
    return rethrowAsApplyError(error);
  }
}
