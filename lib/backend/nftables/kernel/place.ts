/**
 * Where in the table a difference is: its text, and what the text says.
 *
 * @module
 */
import { TABLE } from "../script/objects.ts";

/** A part of the table by name, or the table itself. */
export interface Place {
  readonly type: "table" | "chain" | "set";
  /** `""` for the table. */
  readonly name: string;
}

/** The text of the table itself. */
export const TABLE_PLACE = `table ${TABLE}`;

const CHAIN = "chain ";

/** The text of a chain; that of a set or map is its name. */
export function chainPlace(name: string): string {
  return CHAIN + name;
}

/** What `in` of a difference says. No name has a space. */
export function parsePlace(text: string): Place {
  if (text === TABLE_PLACE) return { type: "table", name: "" };
  return text.startsWith(CHAIN)
    ? { type: "chain", name: text.slice(CHAIN.length) }
    : { type: "set", name: text };
}
