/**
 * The command line of an `nft monitor` that needs little memory.
 *
 * `nft` reads the ruleset with all elements before it prints events, and keeps the elements that
 * are added later: 1.6 kB each (1.0.6, 1.1.3). It prints the same without them, as long as it
 * knows the sets. So it is told, in one run:
 *
 * - `--echo`: keep no elements that are added;
 * - `flush set …`: the elements of these sets need not be read, for they are about to go. They do
 *   not go: with `--check` nothing is ever sent, and `monitor` never comes to an end;
 * - `list table …`, last: of all tables, only ours is read.
 *
 * That is 4 MB at any size. Of a set that comes later, elements are not told: where that matters,
 * a monitor has to be started again (`outgrown`).
 *
 * @module
 */
import type { ListedSet } from "../kernel/nft.ts";
import { TABLE } from "../script/objects.ts";
import { setNamed } from "../script/sets.ts";

/** Most sets that are named: thousands come with session affinity, and hold few elements each. */
const MAX_SETS = 1_000;

/** @param sets those that the table has now */
export function monitorCommand(sets: readonly ListedSet[]): readonly [string, ...string[]] {
  const flushes = sets.slice(0, MAX_SETS).flatMap(({ kind, name }) =>
    `flush ${kind} ${TABLE} ${name} ;`.split(" ")
  );
  const list = `list table ${TABLE}`.split(" ");
  return ["nft", "--check", "--echo", ...flushes, "monitor", ";", ...list];
}

/**
 * Whether sets came that a monitor does not know, and should. Sets of session affinity come and go
 * with endpoints, and their elements are the kernel's own.
 *
 * @param known the sets that the monitor was told of
 */
export function outgrown(known: readonly ListedSet[], added: readonly string[]): boolean {
  return added.some((name) =>
    setNamed(name)?.role !== "affinityClients" && !known.some((each) => each.name === name)
  );
}
