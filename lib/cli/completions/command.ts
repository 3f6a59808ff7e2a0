/**
 * `signpost completions`: prints a script for a shell, or the names that it completes.
 *
 * @module
 */
import { createDecoder } from "../../source/objects/decode.ts";
import type { Command } from "../../config/flags/command.ts";
import type { Shell } from "../../config/flags/arguments.ts";
import { WatchError } from "../../source/api/failure.ts";
import { listPages } from "../../source/api/http/list_pages.ts";
import { resourceOf, withoutFieldSelector } from "../../source/api/resources.ts";
import { FatalError } from "../../model/values/fatal.ts";
import type { QueryContext } from "../query.ts";
import { readCache } from "../../daemon/start/read_state.ts";
import { findApiServer } from "../../daemon/objects/source.ts";
import { bashScript } from "./bash.ts";
import { fishScript } from "./fish.ts";
import { zshScript } from "./zsh.ts";

const SCRIPTS: Readonly<Record<Shell, () => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

/** Milliseconds that a person who has pressed the Tab key waits at most. */
const PATIENCE = 5_000;

/** Services in one answer of the API server. */
const PAGE_SIZE = 500;

/**
 * Prints the script of a shell, or the names of all Services.
 *
 * @returns 0
 * @throws {FatalError} where the Services cannot be had
 */
export async function completions(
  { print }: Extract<Command, { readonly name: "completions" }>,
  context: QueryContext,
): Promise<number> {
  const text = print === "services"
    ? (await serviceNames(context)).sort().map((name) => `${name}\n`).join("")
    : SCRIPTS[print]();
  await context.runtime.print(text);
  return 0;
}

async function serviceNames(context: QueryContext): Promise<string[]> {
  if (context.configuration.signpost.manifests.length > 0) {
    return [...(await readCache(context)).services.keys()];
  }
  const { nodeName, runtime } = context;
  const over = new AbortController();
  const signal = AbortSignal.any([context.signal, over.signal]);
  const waiting = runtime.clock.sleep(PATIENCE, signal).then(() => over.abort());
  try {
    const { client } = await findApiServer({ ...context, observer: {} });
    const { snapshot } = await listPages("Service", {
      client,
      resource: withoutFieldSelector(resourceOf("Service", nodeName)),
      decode: createDecoder(),
      signal,
      pageSize: PAGE_SIZE,
    });
    const event = snapshot.toEvent();
    return event.type === "replace" ? [...event.objects.keys()] : [];
  } catch (error) {
    throw error instanceof WatchError ? new FatalError(error.message, { cause: error }) : error;
  } finally {
    over.abort();
    await waiting;
  }
}
