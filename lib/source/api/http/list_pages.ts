/**
 * Lists in pages, for servers without streaming lists
 * (kubernetes.io/docs/reference/using-api/api-concepts, "Retrieving large results sets in chunks").
 *
 * @module
 */
import type { Decoder, Kind } from "../../../model/cluster/objects.ts";
import type { ApiClient } from "../api_client.ts";
import { WatchError } from "../failure.ts";
import type { Resource } from "../resources.ts";
import { Snapshot } from "../snapshot.ts";
import { readListPage } from "../watch_event.ts";

/** The options of a list. */
export interface ListOptions {
  readonly client: ApiClient;
  readonly resource: Resource;
  readonly decode: Decoder;
  readonly signal: AbortSignal;
  /** Objects in a page; 0 for all in one page. */
  readonly pageSize: number;
  /** The most objects to keep; `MAX_OBJECTS` by default. */
  readonly maxObjects?: number;
}

/** Successive pages without a new object before the list fails. A filter can leave a few pages empty. */
const MAX_IDLE_PAGES = 10;

/** A complete list. */
export interface Listed<K extends Kind> {
  readonly snapshot: Snapshot<K>;
  /** The resource version from which a watch continues. */
  readonly resourceVersion: string;
}

/**
 * Lists all objects of a kind.
 *
 * If a continue token has expired (410), everything is listed again in one page, as in client-go. A
 * second paged list might expire too.
 *
 * @throws {WatchError} at the first failure
 */
export async function listPages<K extends Kind>(
  kind: K,
  options: ListOptions,
): Promise<Listed<K>> {
  const { client, resource, decode, signal, pageSize } = options;
  const snapshot = new Snapshot(kind, options.maxObjects);
  let idlePages = 0;
  let token = "";
  try {
    for (;;) {
      const page = readListPage(
        await client.json(resource.path, {
          query: {
            ...resource.selectors,
            ...(pageSize > 0 && { limit: String(pageSize) }),
            ...(token !== "" && { continue: token }),
          },
          signal,
        }),
      );
      let isIdle = true;
      for (const item of page.items) {
        if (snapshot.put(decode(kind, item))) isIdle = false;
      }
      if (page.next === "") return { snapshot, resourceVersion: page.resourceVersion };
      idlePages = isIdle ? idlePages + 1 : 0;
      if (page.next === token || idlePages >= MAX_IDLE_PAGES) {
        throw new WatchError("garbage", "the pages of the list have no end and nothing new");
      }
      token = page.next;
    }
  } catch (error) {
    const isExpired = token !== "" && error instanceof WatchError && error.reason === "gone";
    if (!isExpired) throw error;
    return await listPages(kind, { ...options, pageSize: 0 });
  }
}
