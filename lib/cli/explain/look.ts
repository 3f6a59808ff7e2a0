/**
 * Looks at the objects of one Service as they are written, where the daemon's objects do not say enough:
 * the daemon keeps no selectors, and no Services without virtual IPs.
 *
 * @module
 */
import type { ServiceTarget } from "../../config/arguments.ts";
import { findApiServer, readSource } from "../../daemon/objects/source.ts";
import type { Kind } from "../../model/cluster/objects.ts";
import { FatalError } from "../../model/values/errors.ts";
import { fieldAt } from "../../model/values/record.ts";
import { WatchError } from "../../source/api/failure.ts";
import type { Inspector } from "../../source/objects/inspect.ts";
import type { QueryContext } from "../query.ts";

/** Milliseconds for the answers. */
const TIMEOUT = 1_000;

/**
 * Shows the Service and its slices to the inspector.
 *
 * @returns whether they could be looked at
 */
export async function lookAt(
  { namespace, name }: ServiceTarget,
  context: QueryContext & { readonly inspector: Inspector },
): Promise<boolean> {
  const { configuration: { signpost: { manifests } }, runtime, inspector } = context;
  if (manifests.includes("-")) return false;
  const inspect = (kind: Kind, raw: unknown) => inspector.look(kind, raw);
  if (manifests.length > 0) {
    await readSource({ ...context, observer: {}, sink: () => {}, inspect });
    return true;
  }
  const over = new AbortController();
  const signal = AbortSignal.any([context.signal, over.signal]);
  const waiting = runtime.clock.sleep(TIMEOUT, signal).then(() => over.abort());
  try {
    const { client } = await findApiServer({ ...context, observer: {} });
    // Lists, for nodes need no permission to get single objects.
    const show = async (kind: Kind, path: string, query: Record<string, string>) => {
      for (const item of itemsOf(await client.json(path, { query, signal }))) inspect(kind, item);
    };
    const slices = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
    await Promise.all([
      show("Service", `/api/v1/namespaces/${namespace}/services`, {
        fieldSelector: `metadata.name=${name}`,
      }),
      show("EndpointSlice", slices, { labelSelector: `kubernetes.io/service-name=${name}` }),
    ]);
    return true;
  } catch (error) {
    if (!(error instanceof WatchError || error instanceof FatalError)) throw error;
    return false;
  } finally {
    over.abort();
    await waiting;
  }
}

function itemsOf(list: unknown): readonly unknown[] {
  const items = fieldAt(list, "items");
  return Array.isArray(items) ? items : [];
}
