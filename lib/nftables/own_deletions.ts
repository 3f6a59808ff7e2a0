/**
 * Tells our own deletions from those of others, among what `nft monitor destroy` prints.
 *
 * A script announces what it is about to delete; that many deletions of each kind pass, and
 * whatever is more was somebody else.
 *
 * @module
 */
import type { Operations } from "./diff.ts";
import { TABLE } from "./objects.ts";

/** Something that was deleted from our table. */
export interface Deletion {
  readonly kind: "table" | "chain" | "rule" | "set" | "element";
  /** The set or chain; `""` for the table. */
  readonly name: string;
}

/** How many of each a script deletes, by `deletionKey`. */
export type Deletions = ReadonlyMap<string, number>;

const LINE = new RegExp(
  `^(?:delete|destroy) (table|chain|rule|set|map|element) ${TABLE}(?: (\\S+)|\\s*$)`,
);

/** A set or map that stands in a rule, as the kernel names it; it goes with its rule. */
const ANONYMOUS = /^__(?:set|map)\d+$/;

/** Reads one line of `nft monitor`; `undefined` where it is not about a deletion in our table. */
export function parseDeletion(line: string): Deletion | undefined {
  const match = LINE.exec(line);
  if (!match || ANONYMOUS.test(match[2] ?? "")) return undefined;
  const kind = match[1] as Deletion["kind"] | "map";
  // nft 1.0.6 calls a map that is deleted a set; newer ones call it a map.
  return { kind: kind === "map" ? "set" : kind, name: match[2] ?? "" };
}

/** What a partial script deletes. */
export function deletionsOf(operations: Operations): Deletions {
  const counts = new Map<string, number>();
  const count = (deletion: Deletion, times = 1) => {
    const key = deletionKey(deletion);
    counts.set(key, (counts.get(key) ?? 0) + times);
  };
  for (const { set } of operations.deleteElements) count({ kind: "element", name: set });
  for (const { before } of operations.rewriteChains) {
    count({ kind: "rule", name: before.name }, before.rules.length);
  }
  for (const { name, rules } of operations.deleteChains) {
    count({ kind: "rule", name }, rules.length);
    count({ kind: "chain", name });
  }
  for (const { name } of operations.deleteSets) count({ kind: "set", name });
  return counts;
}

/** What a full script deletes: the table, with everything in it. */
export const WHOLE_TABLE: Deletions = new Map([[deletionKey({ kind: "table", name: "" }), 1]]);

function deletionKey({ kind, name }: Deletion): string {
  return `${kind} ${name}`;
}

/** The deletions that were announced and not seen yet. */
export class OwnDeletions {
  readonly #expected = new Map<string, number>();

  /** A script with these deletions is about to be applied. */
  announce(deletions: Deletions): void {
    for (const [key, count] of deletions) this.#add(key, count);
  }

  /** The script was refused: nothing was deleted. */
  withdraw(deletions: Deletions): void {
    for (const [key, count] of deletions) this.#add(key, -count);
  }

  /** Forgets everything, where what was seen is not known any more. */
  clear(): void {
    this.#expected.clear();
  }

  /** Takes a deletion that was seen. @returns whether it was ours */
  take(deletion: Deletion): boolean {
    const table = deletionKey({ kind: "table", name: "" });
    // With its table, everything in it is deleted before it.
    if (deletion.kind !== "table" && this.#expected.has(table)) return true;
    const key = deletionKey(deletion);
    if (!this.#expected.has(key)) return false;
    this.#add(key, -1);
    // What partial scripts had announced before has been seen by now, or never will be.
    if (key === table && !this.#expected.has(table)) this.#expected.clear();
    return true;
  }

  #add(key: string, count: number): void {
    const sum = (this.#expected.get(key) ?? 0) + count;
    if (sum > 0) this.#expected.set(key, sum);
    else this.#expected.delete(key);
  }
}
