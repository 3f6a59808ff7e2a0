/**
 * The commands that look and change nothing: explain, verify, status, diff, completions.
 *
 * Each is one function from what it is asked and the context to the exit code: 0 nothing is wrong,
 * 1 something is. A `FatalError` is exit code 2.
 *
 * @module
 */
import { completions } from "./completions/command.ts";
import { diff } from "./diff/command.ts";
import { explain } from "./explain/command.ts";
import type { Query, QueryContext } from "./query.ts";
import { status } from "./status/command.ts";
import { verify } from "./verify/command.ts";

/**
 * Answers a query.
 *
 * @returns the exit code
 * @throws {FatalError} where it cannot be answered
 */
export async function performQuery(query: Query, context: QueryContext): Promise<number> {
  switch (query.name) {
    case "explain":
      return await explain(query, context);
    case "diff":
      return await diff(query, context);
    case "status":
      return await status(query, context);
    case "verify":
      return await verify(query, context);
    case "completions":
      return await completions(query, context);
  }
}
