/**
 * Services that the watches do not list (headless, of other proxies): the API server is asked for
 * the one that explain is about.
 *
 * @module
 */
import type { ServiceTarget } from "../../config/flags/arguments.ts";
import { WatchError } from "../../source/api/failure.ts";
import type { QueryContext } from "../query.ts";
import { findApiServer } from "../../daemon/objects/source.ts";
import type { Inspector } from "../../source/objects/inspect.ts";
import { fieldAt } from "../../model/values/record.ts";

/** Milliseconds for one answer. */
const TIMEOUT = 5_000;

/** Shows the Service to the inspector, where the API server has it. All manifests are seen. */
export async function lookAtUnlisted(
  { namespace, name }: ServiceTarget,
  context: QueryContext & { readonly inspector: Inspector },
): Promise<void> {
  const { configuration, runtime, inspector } = context;
  if (configuration.signpost.manifests.length > 0) return;
  const over = new AbortController();
  const signal = AbortSignal.any([context.signal, over.signal]);
  const waiting = runtime.clock.sleep(TIMEOUT, signal).then(() => over.abort());
  try {
    const { client } = await findApiServer({ ...context, observer: {} });
    // A list, for nodes need no permission to get single Services.
    const list = await client.json(`/api/v1/namespaces/${namespace}/services`, {
      query: { fieldSelector: `metadata.name=${name}` },
      signal,
    });
    for (const item of itemsOf(list)) inspector.look("Service", item);
  } catch (error) {
    if (!(error instanceof WatchError)) throw error;
  } finally {
    over.abort();
    await waiting;
  }
}

function itemsOf(list: unknown): readonly unknown[] {
  const items = fieldAt(list, "items");
  return Array.isArray(items) ? items : [];
}
