/**
 * The text after a flag as a plain value.
 *
 * @module
 */
import { show } from "../../model/values/text.ts";
import type { Flag } from "./flag.ts";

/** The value of one flag, or what is wrong with its text. */
export type FlagValue =
  | { readonly type: "value"; readonly value: unknown }
  | { readonly type: "error"; readonly message: string };

/**
 * Reads the text after a flag as the flag's kind asks, without judging the value any further.
 *
 * @param flag which flag it is
 * @param text the text; `true` for a boolean flag without one
 */
export function parseFlag(flag: Flag, text: string): FlagValue {
  const value = READ[flag.kind](text);
  if (value !== undefined) return { type: "value", value };
  return { type: "error", message: `${RULES[flag.kind]}, is ${show(text)}` };
}

const READ: Readonly<Record<Flag["kind"], (input: string) => unknown>> = {
  text: (input) => input,
  words: (input) => [input],
  list: (input) => input === "" ? [] : input.split(",").map((item) => item.trim()),
  integer: (input) => /^[+-]?\d+$/.test(input) ? Number(input) : undefined,
  number: (input) => /^[+-]?\d+(\.\d+)?$/.test(input) ? Number(input) : undefined,
  boolean: readBoolean,
  map: readSwitches,
};

const RULES: Readonly<Record<Flag["kind"], string>> = {
  text: "must be text",
  words: "must be text",
  list: "must be a list",
  integer: "must be a whole number",
  number: "must be a number",
  boolean: "must be true or false",
  map: "must be a list such as Name=true,Other=false",
};

/** What Go's `strconv.ParseBool` takes. */
function readBoolean(input: string): boolean | undefined {
  if (["1", "t", "T", "true", "True", "TRUE"].includes(input)) return true;
  if (["0", "f", "F", "false", "False", "FALSE"].includes(input)) return false;
  return undefined;
}

function readSwitches(input: string): Readonly<Record<string, boolean>> | undefined {
  const entries: [string, boolean][] = [];
  for (const part of input.split(",").filter((part) => part.trim() !== "")) {
    const [name = "", state = ""] = part.split("=").map((side) => side.trim());
    const on = readBoolean(state);
    if (name === "" || on === undefined) return undefined;
    entries.push([name, on]);
  }
  return Object.fromEntries(entries);
}
