/**
 * Shares equal objects in memory.
 *
 * @module
 */
import type { Decoded, Decoder, Kind, KindMap } from "../../model/cluster/objects.ts";
import { sameValue } from "../../model/values/record.ts";

/** Returns the known object, or `undefined`. */
export type Known = <K extends Kind>(kind: K, key: string) => KindMap[K] | undefined;

/**
 * Returns a decoder that returns the known object if the decoded one is equal. After a relist,
 * unchanged objects then cause no work.
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
