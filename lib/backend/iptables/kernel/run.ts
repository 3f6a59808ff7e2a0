/**
 * Running programs that may not be installed.
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
 * What the program left, or `undefined` where it is not installed.
 *
 * @throws {ApplyError} where it could not be run to its end
 */
export async function runIfThere(
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
