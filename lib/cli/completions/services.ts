/**
 * The names of all Services, for a person who has pressed the Tab key.
 *
 * @module
 */
import type { Shell } from "../../config/flags/arguments.ts";
import { scan } from "../../config/flags/scan.ts";
import { isOf } from "../../config/flags/table.ts";
import { loadConfiguration } from "../../config/load.ts";
import { createDecoder } from "../../source/objects/decode.ts";
import { WatchError } from "../../source/api/failure.ts";
import { listPages } from "../../source/api/http/list_pages.ts";
import { resourceOf, withoutFieldSelector } from "../../source/api/resources.ts";
import { FatalError } from "../../model/values/errors.ts";
import { VERSION } from "../../model/version.ts";
import { readCache } from "../../daemon/start/read_state.ts";
import { findApiServer } from "../../daemon/objects/source.ts";
import { nodeConfiguration } from "../node_configuration.ts";
import { nodeNameOf } from "../node_name.ts";
import type { QueryContext } from "../query.ts";

/** Milliseconds that a person waits at most. */
const PATIENCE = 5_000;

/** Services in one answer of the API server. */
const PAGE_SIZE = 500;

/**
 * Reads the names, where the flags of a line say, else where the daemon of this node has them from.
 *
 * @param line the words of a command line
 * @returns `namespace/name`, in order; none where the line is wrong, or the objects would come from the
 *   standard input, which is what the person types
 * @throws {FatalError} where the Services cannot be had, or not in time
 */
export async function serviceNames(
  line: readonly string[],
  given: QueryContext & { readonly shell: Shell },
): Promise<readonly string[]> {
  const over = new AbortController();
  const signal = AbortSignal.any([given.signal, over.signal]);
  const late = given.runtime.clock.sleep(PATIENCE, signal).then(() => {
    throw new FatalError(`they are not there within ${PATIENCE / 1000} s`);
  });
  try {
    return await Promise.race([readNames(line, { ...given, signal }), late]);
  } finally {
    over.abort();
  }
}

async function readNames(
  line: readonly string[],
  given: QueryContext & { readonly shell: Shell },
): Promise<readonly string[]> {
  const { shell, runtime } = given;
  const flags = scan(line.slice(0, -1)).given.filter(({ flag }) => isOf(flag, "completions"));
  const argv = ["completions", shell, ...flags.map(({ flag, text }) => `--${flag.name}=${text}`)];
  const own = await loadConfiguration(argv, { readFile: runtime.readFile, version: VERSION });
  if (own.type !== "run") return [];
  const found = await nodeConfiguration({ argv, invocation: own, runtime, version: VERSION });
  if (found.type !== "run") return [];
  const { configuration } = found;
  const { manifests } = configuration.signpost;
  if (manifests.includes("-")) return [];
  const context = { ...given, configuration, nodeName: nodeNameOf(configuration, runtime) };
  const names = manifests.length > 0
    ? (await readCache(context)).services.keys()
    : await listNames(context);
  return [...names].sort();
}

async function listNames(context: QueryContext): Promise<Iterable<string>> {
  const { nodeName, signal } = context;
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
    return event.type === "replace" ? event.objects.keys() : [];
  } catch (error) {
    throw error instanceof WatchError ? new FatalError(error.message, { cause: error }) : error;
  }
}
