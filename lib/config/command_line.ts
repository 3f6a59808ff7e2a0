/**
 * Reads the command line: words in, checked settings and options of a command out, and all problems.
 * It is split as pflag does it for kube-proxy: `--flag=value`, `--flag value`, `--switch`, `-v4`, `-v=4`,
 * `-v 4`, `_` for `-` in names, and `--` before words that are no flags.
 */
import { append } from "../model/values/lists.ts";
import { isRecord } from "../model/values/record.ts";
import { didYouMean, plain, show } from "../model/values/text.ts";
import { COMMAND_ROWS, type CommandName, COMMANDS } from "./commands.ts";
import { checkValue, formatPath, type ProblemLine } from "./file/issues.ts";
import { Fault } from "./file/readers.ts";
import { findFlag, FLAGS, ownersOf, ownFlagsOf } from "./flags.ts";
import type { Flag, Setting } from "./settings/setting.ts";
import { type GivenSettings, ROWS } from "./settings/table.ts";

export interface CommandLineResult {
  readonly command: CommandName;
  /** The words after the command that are no flags. */
  readonly words: readonly string[];
  readonly information: "help" | "version" | undefined;
  readonly settings: GivenSettings;
  readonly options: Readonly<Record<string, unknown>>;
  /** The flag that set a path: `conntrack.min` to `--conntrack-min`. */
  readonly setBy: ReadonlyMap<string, string>;
  /** All flags that were given, as `--name`. */
  readonly given: readonly string[];
  /** The errors of the command line, whatever the settings; one line each. */
  readonly errors: readonly string[];
  /** The problems of the settings: `--cluster-cidr: must be …`. */
  readonly problems: readonly ProblemLine[];
}

export function readCommandLine(argv: readonly string[]): CommandLineResult {
  const { command: word, words, given, errors } = scan(argv);
  const lastOf = (name: string) =>
    given.findLast(({ flag }) => flag.name === name)?.text ?? "false";
  const isOn = (name: string) => readBoolean(lastOf(name)) === true;
  // Go's components print the version for both (component-base/version/verflag).
  const isVersion = isOn("version") || lastOf("version") === "raw";
  const command = word === "run" && isOn("cleanup") ? "cleanup" : word;
  const own = ownFlagsOf(command).map(({ name }) => name);
  const [options, settings] = [
    readValues(given.filter(({ flag }) => own.includes(flag.name)), {
      rows: new Map(Object.entries(COMMAND_ROWS[command].flags)),
    }),
    readValues(given.filter(({ flag }) => ownersOf(flag).length === 0), { rows: ROWS }),
  ];
  const wrong = [
    ...errors,
    ...options.errors,
    ...settings.errors,
    ...given.flatMap(({ flag }) => misplaced(flag, command)),
  ];
  return {
    command,
    words,
    information: isOn("help") ? "help" : isVersion ? "version" : undefined,
    // Each value was read by the reader of its row.
    settings: settings.values as GivenSettings,
    options: options.values,
    setBy: settings.setBy,
    given: [...new Set(given.map(({ flag }) => `--${flag.name}`))],
    errors: [...new Set(wrong)],
    problems: [...options.problems, ...settings.problems],
  };
}

function misplaced(flag: Flag, command: CommandName): string[] {
  const owners = ownersOf(flag);
  if (owners.length === 0 || owners.includes(command)) return [];
  const commands = owners.length === 1 ? "command" : "commands";
  return [`--${flag.name}: is only for the ${commands} ${owners.join(", ")}, not for ${command}`];
}

interface GivenFlag {
  readonly flag: Flag;
  readonly text: string;
}

interface Scan extends Pick<CommandLineResult, "command" | "words" | "errors"> {
  readonly given: readonly GivenFlag[];
}

/** Splits a command line. Names are checked, values are not. */
function scan(argv: readonly string[]): Scan {
  const given: GivenFlag[] = [];
  const words: string[] = [];
  const errors: string[] = [];
  const [first] = argv;
  const named = COMMANDS.find((name) => name === first);
  const command = named ?? "run";
  const { takesWords } = COMMAND_ROWS[command];
  const rest = argv.slice(named === undefined ? 0 : 1);
  for (let position = 0; position < rest.length; position++) {
    const token = rest[position] ?? "";
    if (takesWords && token === "--") {
      append(words, rest.slice(position + 1));
      break;
    }
    if (takesWords && isWord(token)) {
      words.push(token);
      continue;
    }
    if (isWord(token) || token === "--") {
      errors.push(unexpected(token, token === first ? undefined : given.at(-1)));
      continue;
    }
    const { flag, name, text } = splitFlag(token, command);
    const next = rest[position + 1];
    if (flag === undefined) {
      errors.push(unknown(name));
      if (text === undefined && next !== undefined && !next.startsWith("-")) position++;
    } else if (text !== undefined || flag.kind === "boolean") {
      given.push({ flag, text: text ?? "true" });
    } else if (flag.alone !== undefined && !/^\d+$/.test(next ?? "")) {
      given.push({ flag, text: flag.alone });
    } else if (next === undefined || splitFlag(next, command).flag !== undefined) {
      errors.push(`--${flag.name}: needs a value (${flag.value ?? "VALUE"})`);
    } else {
      given.push({ flag, text: next });
      position++;
    }
  }
  return { command, words, given, errors };
}

/** Returns true if a token is no flag: an arrow is not, nor is a lone dash. */
function isWord(token: string): boolean {
  return !token.startsWith("-") || token === "-" || token.startsWith("->");
}

interface Token {
  readonly flag: Flag | undefined;
  /** As it was written, with its dashes. */
  readonly name: string;
  readonly text: string | undefined;
}

export function splitFlag(token: string, command: CommandName): Token {
  const [name, text] = cut(token);
  if (name.startsWith("--")) {
    const long = name.slice(2).replaceAll("_", "-");
    return { flag: findFlag(command, (each) => each.name === long), name, text };
  }
  const isLong = name.length > 2 && FLAGS.some((flag) => flag.name === name.slice(1));
  const letter = isLong || !name.startsWith("-") ? "" : name[1];
  const flag = letter ? findFlag(command, (each) => each.letter === letter) : undefined;
  if (flag === undefined || name.length === 2) return { flag, name, text };
  return { flag, name: name.slice(0, 2), text: token.slice(2) };
}

function cut(token: string): [string, string | undefined] {
  const equals = token.indexOf("=");
  return equals < 0 ? [token, undefined] : [token.slice(0, equals), token.slice(equals + 1)];
}

function unknown(name: string): string {
  const names = FLAGS.map((flag) => flag.name);
  return `${plain(name)}: unknown flag${didYouMean(name.replace(/^-+/, ""), names, "--")}`;
}

function unexpected(word: string, before: GivenFlag | undefined): string {
  if (before?.flag.kind === "boolean" && (word === "true" || word === "false")) {
    return `${word}: unexpected word (write --${before.flag.name}=${word})`;
  }
  const isCommand = COMMANDS.some((name) => name === word);
  return isCommand ? `${word}: the command must be the first word` : unexpectedWord(word);
}

export function unexpectedWord(word: string): string {
  const hint = didYouMean(word, [...COMMANDS, "help"]) || ` (commands: ${COMMANDS.join(", ")})`;
  return `${show(word)}: unknown command or unexpected word${hint}`;
}

interface Values extends Pick<CommandLineResult, "errors" | "problems" | "setBy"> {
  readonly values: Readonly<Record<string, unknown>>;
}

/** Reads the texts of flags, and checks the values by their rows. Problems name the flag. */
function readValues(
  given: readonly GivenFlag[],
  { rows }: { readonly rows: ReadonlyMap<string, Setting<unknown>> },
): Values {
  const texts = new Map<string, unknown>();
  const setBy = new Map<string, string>();
  const errors: string[] = [];
  for (const { flag, text } of given) {
    const value = READ[flag.kind](text);
    if (value instanceof Fault) {
      errors.push(`--${flag.name}: ${value.rule}, is ${show(text)}`);
      continue;
    }
    for (const path of flag.sets) {
      texts.set(path, added(texts.get(path), { flag, value }));
      setBy.set(path, `--${flag.name}`);
    }
  }
  const values: Record<string, unknown> = {};
  const problems: ProblemLine[] = [];
  for (const [path, value] of texts) {
    const row = rows.get(path);
    const checked = row ? checkValue(row, value) : { value: undefined, problems: [] };
    if (checked.problems.length === 0) values[path] = checked.value;
    for (const problem of checked.problems) {
      const inside = problem.path.filter((key) => typeof key !== "number");
      const place = inside.length === 0 ? "" : `${formatPath(inside)}: `;
      const line = `${setBy.get(path)}: ${place}${problem.message}`;
      problems.push({ setting: path, kind: problem.kind, line });
    }
  }
  return { values, setBy, errors, problems };
}

/** Returns the value of a flag that may be repeated: lists grow, all else is replaced. */
function added(
  old: unknown,
  { flag, value }: { readonly flag: Flag; readonly value: unknown },
): unknown {
  if (Array.isArray(old) && Array.isArray(value)) return [...old, ...value];
  return flag.kind === "map" && isRecord(old) && isRecord(value) ? { ...old, ...value } : value;
}

const READ: Readonly<Record<Flag["kind"], (input: string) => unknown>> = {
  text: (input) => input,
  words: (input) => [input],
  list: (input) => input === "" ? [] : input.split(",").map((item) => item.trim()),
  integer: (input) =>
    /^[+-]?\d+$/.test(input) ? Number(input) : new Fault("must be a whole number"),
  number: (input) =>
    /^[+-]?\d+(\.\d+)?$/.test(input) ? Number(input) : new Fault("must be a number"),
  boolean: (input) => readBoolean(input) ?? new Fault("must be true or false"),
  map: readSwitches,
};

/** Reads what Go's `strconv.ParseBool` accepts. */
function readBoolean(input: string): boolean | undefined {
  if (["1", "t", "T", "true", "True", "TRUE"].includes(input)) return true;
  if (["0", "f", "F", "false", "False", "FALSE"].includes(input)) return false;
  return undefined;
}

function readSwitches(input: string): Readonly<Record<string, boolean>> | Fault {
  const entries: [string, boolean][] = [];
  for (const part of input.split(",").filter((part) => part.trim() !== "")) {
    const [name = "", state = ""] = part.split("=").map((side) => side.trim());
    const on = readBoolean(state);
    if (name === "" || on === undefined) {
      return new Fault("must be a list such as Name=true,Other=false");
    }
    entries.push([name, on]);
  }
  return Object.fromEntries(entries);
}
