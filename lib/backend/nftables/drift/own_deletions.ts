/**
 * Tells our own deletions from those of others, among what `nft monitor destroy` prints.
 *
 * A script announces what it is about to delete; that many deletions of each kind pass, and
 * whatever is more was somebody else.
 *
 * @module
 */
import type { Operations } from "../script/diff.ts";
import { TABLE } from "../script/objects.ts";

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

/** What one script announced, and what of it has not been seen yet. */
interface Announcement {
  readonly deletions: Deletions;
  readonly left: Map<string, number>;
  /** The script has ended: who begins to follow the table now will not see what it deleted. */
  isApplied: boolean;
  /** It was there at the last `expire`. */
  isOld: boolean;
}

const TABLE_KEY = deletionKey({ kind: "table", name: "" });

/** The deletions that were announced and not seen yet, script by script: the monitor may lag behind. */
export class OwnDeletions {
  #announced: Announcement[] = [];

  /** A script with these deletions is about to be applied. */
  announce(deletions: Deletions): void {
    if (deletions.size > 0) {
      this.#announced.push({ deletions, left: new Map(deletions), isApplied: false, isOld: false });
    }
  }

  /**
   * The script was taken.
   *
   * @param deletions the very value that was announced
   */
  settle(deletions: Deletions): void {
    const announcement = this.#announced.findLast((each) => each.deletions === deletions);
    if (announcement) announcement.isApplied = true;
  }

  /**
   * The script was refused: nothing was deleted.
   *
   * @param deletions the very value that was announced
   */
  withdraw(deletions: Deletions): void {
    const last = this.#announced.findLastIndex((each) => each.deletions === deletions);
    if (last >= 0) this.#announced.splice(last, 1);
  }

  /**
   * Forgets what has been deleted, where what was seen of it is not known. A script that is under
   * way may still be seen.
   */
  clear(): void {
    this.#announced = this.#announced.filter(({ isApplied }) => !isApplied);
  }

  /** Forgets what was not seen since the last call but one: it was deleted before anybody looked. */
  expire(): void {
    this.#announced = this.#announced.filter(({ isOld }) => !isOld);
    for (const announcement of this.#announced) announcement.isOld = true;
  }

  /** Takes a deletion that was seen. @returns whether it was ours */
  take(deletion: Deletion): boolean {
    return deletion.kind === "table" ? this.#takeTable() : this.#takePart(deletionKey(deletion));
  }

  /** What was announced before a table has been seen once the table has, or never will be. */
  #takeTable(): boolean {
    const index = this.#announced.findIndex(({ left }) => left.has(TABLE_KEY));
    this.#announced.splice(0, index + 1);
    return index >= 0;
  }

  /** With its table, everything in it is deleted before it. */
  #takePart(key: string): boolean {
    const index = this.#announced.findIndex(({ left }) => left.has(TABLE_KEY) || left.has(key));
    const announcement = this.#announced[index];
    const count = announcement?.left.get(key);
    if (announcement && count !== undefined) {
      if (count > 1) announcement.left.set(key, count - 1);
      else announcement.left.delete(key);
      if (announcement.left.size === 0) this.#announced.splice(index, 1);
    }
    return announcement !== undefined;
  }
}
