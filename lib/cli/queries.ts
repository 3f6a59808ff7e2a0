/**
 * The commands that look and change nothing: explain, verify, status, diff, completions.
 *
 * Each is one function from what it is asked and the context to the exit code: 0 nothing is wrong,
 * 1 something is. A `FatalError` is exit code 2.
 *
 * @module
 */
import type { Command } from "../config/command.ts";
import type { Configuration } from "../model/configuration.ts";
import type { Logger } from "../model/ports.ts";
import type { Runtime } from "../system/runtime.ts";
import { FatalError } from "./fatal.ts";
import { status } from "./status.ts";
import { verify } from "./verify.ts";

/** A command that changes nothing. */
export type Query = Exclude<Command, { readonly name: "run" | "cleanup" }>;

/** What these commands work with. */
export interface QueryContext {
  readonly configuration: Configuration;
  readonly nodeName: string;
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** Aborts when the process is told to stop. */
  readonly signal: AbortSignal;
}

/**
 * Answers a query.
 *
 * @returns the exit code
 * @throws {FatalError} where it cannot be answered
 */
export async function performQuery(query: Query, context: QueryContext): Promise<number> {
  switch (query.name) {
    case "status":
      return await status(query, context);
    case "verify":
      return await verify(query, context);
    default:
      throw new FatalError(`${query.name} is not part of this build`);
  }
}
