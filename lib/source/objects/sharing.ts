/**
 * Keeps what comes again as it was in memory once.
 *
 * @module
 */
import type { Decoded, Decoder } from "../../model/cluster/events.ts";
import type { Kind, KindMap } from "../../model/cluster/objects.ts";
import { sameValue } from "../../model/values/same_value.ts";

/** What is known of an object; `undefined`: nothing. */
export type Known = <K extends Kind>(kind: K, key: string) => KindMap[K] | undefined;

/**
 * A decoder that gives the known object where the decoded one is the same: a list brings very many that have not
 * changed, and who follows them has nothing to do then.
 */
export function sharing(decode: Decoder, known: Known): Decoder {
  return <K extends Kind>(kind: K, raw: unknown): Decoded<K> => {
    const decoded = decode(kind, raw);
    if (decoded.type !== "object") return decoded;
    const object = known(kind, decoded.key);
    return object !== undefined && sameValue(object, decoded.object)
      ? { ...decoded, object }
      : decoded;
  };
}
