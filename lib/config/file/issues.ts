/** Checks values against the table of settings, and returns every problem. */
import { plain, show } from "../../model/values/text.ts";
import { boolean, Fault } from "./readers.ts";
import type { Setting } from "../settings/setting.ts";
import { isRecord } from "../../model/values/record.ts";

/** The keys and list positions from the root of a document to a value. */
export type Path = readonly (string | number)[];

/** One problem with its path. The message follows the path. */
export interface Problem {
  readonly path: Path;
  /** An unknown field, a value of another type, or a value that is not allowed. */
  readonly kind: "unknown" | Fault["kind"];
  readonly message: string;
}

export interface ProblemLine extends Pick<Problem, "kind"> {
  /** The setting: `conntrack.min`. */
  readonly setting: string;
  readonly line: string;
}

/** Prints a path: `nodePortAddresses[1]`, `iptables.masqueradeBit`. */
export function formatPath(path: Path): string {
  return path.map((key, index) => {
    if (typeof key === "number") return `[${key}]`;
    return (index === 0 ? "" : ".") + plain(key);
  }).join("");
}

/** Checks the value of a setting. As in Go, `null` means unset, in lists and mappings too. */
export function checkValue(
  { shape, read }: Pick<Setting<unknown>, "shape" | "read">,
  value: unknown,
): {
  /** `undefined` if unset. Valid without problems only. */
  readonly value: unknown;
  /** Their paths begin inside the value. */
  readonly problems: readonly Problem[];
} {
  const problems: Problem[] = [];
  const checked = (each: unknown, result: unknown, path: Path): unknown => {
    if (!(result instanceof Fault)) return result;
    const { rule, kind, complete } = result;
    problems.push({ path, kind, message: complete ? rule : `${rule}, is ${show(each)}` });
    return undefined;
  };
  const wrongType = (rule: string) => checked(value, new Fault(rule), []);
  const readAll = (): unknown => {
    if (!isSet(value)) return undefined;
    if (shape === "value") return checked(value, read(value), []);
    if (shape === "list") {
      if (!Array.isArray(value)) return wrongType("must be a list");
      return value.flatMap((each, i) => isSet(each) ? [checked(each, read(each), [i])] : []);
    }
    if (!isRecord(value)) return wrongType("must be a mapping of names to true or false");
    const switches = Object.entries(value).filter(([, each]) => isSet(each));
    return Object.fromEntries(
      switches.map(([name, each]) => [name, checked(each, boolean(each), [name])]),
    );
  };
  return { value: readAll(), problems };
}

function isSet(value: unknown): boolean {
  return value !== null && value !== undefined;
}
