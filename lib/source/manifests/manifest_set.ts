/**
 * Joins all manifest files into the events of a complete state.
 *
 * @module
 */
import { type Kind, KINDS, type ObjectEvent } from "../../model/cluster/objects.ts";
import type { Manifest, ManifestObject } from "./manifests.ts";
import { Snapshot } from "../api/snapshot.ts";

/** The complete state of all kinds. */
export interface ManifestState {
  /** One `replace` for each kind, in the order of `KINDS`. */
  readonly events: readonly ObjectEvent[];
  /** Objects that are defined twice, one line each. The last definition counts. */
  readonly duplicates: readonly string[];
}

/** Joins the files in their order. */
export function joinManifests(manifests: ReadonlyMap<string, Manifest>): ManifestState {
  const duplicates: string[] = [];
  const events = KINDS.map((kind) => {
    const snapshot = new Snapshot<Kind>(kind);
    for (const [file, { objects }] of manifests) {
      for (const object of objects) {
        if (object.kind !== kind || snapshot.put(decodedOf(object))) continue;
        duplicates.push(`${file}: ${kind} ${object.decoded.key} is there twice, this one counts`);
      }
    }
    return snapshot.toEvent();
  });
  return { events, duplicates };
}

function decodedOf(object: ManifestObject): ManifestObject["decoded"] {
  return object.decoded;
}
