/** Defines the row of a setting: its reader, its default, its flag, its form in `/configz`, and its effect. */
import type { MinSyncPeriod } from "../model/configuration.ts";
import { isRecord } from "../model/values/record.ts";
import { plain, show } from "../model/values/text.ts";
import {
  boolean,
  duration as readDuration,
  Fault,
  oneOf,
  printDuration,
  type Reader,
} from "./file/readers.ts";

/** A value that `JSON.stringify` prints unchanged. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/**
 * The form of the text after a flag. A `boolean` may stand without text. Commas separate the values of
 * a `list`, not of `words`; both may be repeated. A `map` is `Name=true,Name=false`.
 */
type FlagKind = "boolean" | "text" | "integer" | "number" | "list" | "words" | "map";

export interface Flag {
  /** As the help text shows it: `-o, --output FORMAT`. */
  readonly usage: string;
  /** Without the dashes. */
  readonly name: string;
  readonly letter: string | undefined;
  readonly kind: FlagKind;
  /** The name of its value in the help text; `undefined` for a boolean flag. */
  readonly value: string | undefined;
  /** The paths of the settings that it sets, or the name of a command's option. */
  readonly sets: readonly string[];
  /** The text that counts if the flag stands without a number. */
  readonly alone?: string | undefined;
  readonly help: string;
  /** The values that it takes, for shell completion. */
  readonly choices?: readonly string[] | undefined;
}

export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly Flag[];
}

interface SettingOptions extends Partial<Pick<Flag, "kind" | "alone" | "help" | "choices">> {
  /** As the help text shows it: `-o, --output FORMAT`. */
  readonly flag?: string;
  /** Paths of other settings that the flag also sets. */
  readonly alsoSets?: readonly string[];
  /** True if KubeProxyConfiguration has it; true by default. */
  readonly inFile?: boolean;
  /** Set if an empty or zero value means the default, in the file only or in flags too. */
  readonly empty?: "in the file" | "everywhere";
}

/** One setting. `T` is its type in the configuration. */
export interface Setting<T> extends SettingOptions {
  /** `list` has values of `read`. `switches` has names with true or false. */
  readonly shape: "value" | "list" | "switches";
  /** Reads the value, or one item of a list. */
  readonly read: Reader<unknown>;
  readonly default: T;
  /** Prints the value as in KubeProxyConfiguration. @default unchanged */
  print?(value: T): JsonValue;
}

export function value<T extends JsonValue>(
  read: Reader<T | "">,
  fallback: T,
  options: SettingOptions = {},
): Setting<T> {
  return { ...options, shape: "value", read, default: fallback };
}

export function flagOnly<T extends JsonValue>(
  read: Reader<T>,
  fallback: T,
  options: SettingOptions,
): Setting<T> {
  return value(read, fallback, { inFile: false, ...options });
}

/** Returns a setting that is off by default, and that only its flag sets. */
export function switchFlag(flag: string, help: string): Setting<boolean> {
  return flagOnly<boolean>(boolean, false, { flag, help });
}

/** Returns a setting that is one of some words. Empty text means the default. */
export function choice<const T extends string>(
  choices: readonly T[],
  fallback: NoInfer<T>,
  options: SettingOptions,
): Setting<T> {
  return value<T>(oneOf(...choices), fallback, { choices, empty: "everywhere", ...options });
}

/** Returns a setting with a duration in milliseconds. */
export function duration(fallback: number, options: SettingOptions = {}): Setting<number> {
  return { ...value<number>(readDuration, fallback, options), print: printDuration };
}

/** Returns a setting that is adaptive by default. KubeProxyConfiguration shows `0s` for it, as kubeadm does. */
export function minSyncPeriod(options: SettingOptions = {}): Setting<MinSyncPeriod> {
  return {
    ...duration(0, options),
    empty: "in the file",
    default: "adaptive",
    print: (value) => printDuration(value === "adaptive" ? 0 : value),
  };
}

export function list<T extends JsonValue>(
  read: Reader<T>,
  options: SettingOptions = {},
): Setting<readonly T[]> {
  return { ...options, shape: "list", read, default: [] };
}

/** Returns a setting with names that are true or false, empty by default. */
export function switches(options: SettingOptions): Setting<Readonly<Record<string, boolean>>> {
  return { ...options, shape: "switches", read: boolean, default: {} };
}

const NO_EFFECT = "No effect.";

export function flagsOf(settings: Readonly<Record<string, Setting<unknown>>>): readonly Flag[] {
  return Object.entries(settings).flatMap(([path, row]): Flag[] => {
    const { flag: usage = "", alsoSets = [], alone, choices, kind = kindOf(row) } = row;
    const [, letter, name, value] = /^(?:-(.), )?--(\S+)(?: (.+))?$/.exec(usage) ?? [];
    if (name === undefined) return [];
    const [sets, help] = [[path, ...alsoSets], helpOf(row)];
    return [{ usage, name, letter, kind, value, sets, alone, help, choices }];
  });
}

/** Returns the help text, with the default at its end. Zero, false and empty defaults are not named. */
function helpOf(row: Setting<unknown>): string {
  const { help, default: fallback } = row;
  if (help === undefined) return NO_EFFECT;
  if (!fallback || typeof fallback === "object") return help;
  const text = isDuration(row)
    // `24h0m0s` is `24h`.
    ? printDuration(row.default).replace(/(?<=[hm])0s$/, "").replace(/(?<=h)0m$/, "")
    : fallback;
  return `${help} Default ${text}.`;
}

function kindOf(row: Setting<unknown>): FlagKind {
  if (row.shape !== "value") return row.shape === "list" ? "list" : "map";
  if (row.read === boolean) return "boolean";
  return typeof row.default === "number" && !isDuration(row) ? "integer" : "text";
}

function isDuration(row: Setting<unknown>): row is Setting<number> {
  return typeof row.default === "number" && row.print === printDuration;
}

/** A value that a setting does not take. */
export interface Problem {
  /** Its place inside the value: `[1]`, `.Name`, or `""`. */
  readonly inside: string;
  readonly kind: Fault["kind"];
  readonly message: string;
}

/** One line about a problem of the command line or the file. */
export interface ProblemLine {
  /** The setting, such as `conntrack.min`; `""` if the line is not about a setting. */
  readonly setting: string;
  /** `ignored` is a warning. */
  readonly kind: Fault["kind"] | "ignored";
  readonly line: string;
}

/** Returns an error of the command line or the file that does not depend on settings. */
export function errorLine(line: string): ProblemLine {
  return { setting: "", kind: "type", line };
}

/** Returns the checked value of a setting; `undefined` after a problem. As in Go, `null` within a value is unset. */
export function checkValue(
  { shape, read }: Pick<Setting<unknown>, "shape" | "read">,
  { value, report }: { readonly value: unknown; readonly report: (problem: Problem) => void },
): unknown {
  let isValid = true;
  const checked = (each: unknown, inside: string, result = read(each)): unknown => {
    if (!(result instanceof Fault)) return result;
    const { rule, kind } = result;
    // A list keeps its good entries. `isError` decides if the bad entry is an error in this mode.
    if (shape !== "list" || kind !== "value") isValid = false;
    report({ inside, kind, message: kind === "secret" ? rule : `${rule}, is ${show(each)}` });
    return undefined;
  };
  const wrongShape = (rule: string) => checked(value, "", new Fault(rule));
  let result: unknown;
  if (shape === "value") {
    result = checked(value, "");
  } else if (shape === "list") {
    result = Array.isArray(value)
      ? value.flatMap((each, i) => each == null ? [] : checked(each, `[${i}]`) ?? [])
      : wrongShape("must be a list");
  } else if (isRecord(value)) {
    const named = Object.entries(value).filter(([, each]) => each != null);
    result = Object.fromEntries(
      named.map(([name, each]) => [name, checked(each, `.${plain(name)}`)]),
    );
  } else {
    result = wrongShape("must be a mapping of names to true or false");
  }
  return isValid ? result : undefined;
}
