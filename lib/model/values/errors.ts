/** Reads the messages of thrown values, and declares the error that ends the process. */

/** Matches Deno's advice in a permission error: signpost does not have such flags. */
const DENO_FLAG = /, run again with the --allow-[\w-]+ flag/;

/** Returns the message of an error, or the text of any other thrown value. */
export function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(DENO_FLAG, "");
}

/** Ends signpost with exit code 1. The message is for the user. */
export class FatalError extends Error {
  override name = "FatalError";
}

/** Returns a handler for `catch` that makes errors of one type fatal, and throws any other error unchanged. */
export function fatalIf(
  type: abstract new (...parameters: never[]) => Error,
): (error: unknown) => never {
  return (error) => {
    throw error instanceof type ? new FatalError(error.message, { cause: error }) : error;
  };
}

/** Returns the message of a fatal error. Any other error is thrown again. */
export function messageIfFatal(error: unknown): string {
  if (error instanceof FatalError) return error.message;
  throw error;
}

/** Ignores a fatal error, as a handler for `catch`. Any other error is thrown again. */
export function unlessFatal(error: unknown): undefined {
  messageIfFatal(error);
}
