/**
 * Reads the command line: words in, checked settings and options of a command out, and all problems.
 * It is split as pflag does it for kube-proxy: `--flag=value`, `--flag value`, `--switch`, `-v4`, `-v=4`,
 * `-v 4`, `_` for `-` in names, and `--` before words that are not flags.
 */
import { append } from "../model/values/lists.ts";
import { isRecord } from "../model/values/record.ts";
import { didYouMean } from "../model/values/nearest.ts";
import { plain, show } from "../model/values/text.ts";
import { COMMAND_ROWS, type CommandName, COMMANDS, findFlag, FLAGS, ownersOf } from "./commands.ts";
import { Fault } from "./file/readers.ts";
import { checkValue, errorLine, type Flag, type Problem, type ProblemLine } from "./setting.ts";
import { type GivenSettings, ROWS } from "./settings.ts";

export interface CommandLineResult {
  readonly command: CommandName;
  /** The words after the command that are not flags. */
  readonly words: readonly string[];
  readonly information: "help" | "version" | undefined;
  /** The values of settings by their paths, and of the command's options by their names. */
  readonly values: GivenSettings & Readonly<Record<string, unknown>>;
  /** The flag that set a path: `conntrack.min` to `--conntrack-min`. */
  readonly setBy: ReadonlyMap<string, string>;
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
  const { problems, ...read } = readValues(given, command);
  return {
    command,
    words,
    information: isOn("help") ? "help" : isVersion ? "version" : undefined,
    problems: [...errors.map(errorLine), ...problems],
    ...read,
  };
}

interface GivenFlag {
  readonly flag: Flag;
  readonly text: string;
}

interface Scan extends Pick<CommandLineResult, "command" | "words"> {
  readonly given: readonly GivenFlag[];
  readonly errors: readonly string[];
}

/** Splits a command line. Names are checked, values are not. */
function scan(argv: readonly string[]): Scan {
  const given: GivenFlag[] = [];
  const words: string[] = [];
  const errors: string[] = [];
  const [first] = argv;
  const named = COMMANDS.find((name) => name === first);
  const command = named ?? "run";
  const takesWords = COMMAND_ROWS[command].words !== undefined;
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

/** Returns true if a token is not a flag. An arrow and a lone dash are words. */
function isWord(token: string): boolean {
  return !token.startsWith("-") || token === "-" || token.startsWith("->");
}

interface Token {
  readonly flag: Flag | undefined;
  /** The name as it was written, with its dashes. */
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

/** Reads the texts of flags, and checks the values by their rows. */
function readValues(
  given: readonly GivenFlag[],
  command: CommandName,
): Pick<CommandLineResult, "values" | "setBy" | "problems"> {
  const rows = new Map([...ROWS, ...Object.entries(COMMAND_ROWS[command].flags)]);
  const texts = new Map<string, unknown>();
  const setBy = new Map<string, string>();
  const problems: ProblemLine[] = [];
  for (const { flag, text } of given) {
    const owners = ownersOf(flag);
    if (owners.length > 0 && !owners.includes(command)) {
      const commands = `${owners.length === 1 ? "command" : "commands"} ${owners.join(", ")}`;
      problems.push(errorLine(`--${flag.name}: is only for the ${commands}, not for ${command}`));
      continue;
    }
    const value = READ[flag.kind](text);
    if (value instanceof Fault) {
      problems.push(errorLine(`--${flag.name}: ${value.rule}, is ${show(text)}`));
      continue;
    }
    for (const path of flag.sets) {
      texts.set(path, added(texts.get(path), { flag, value }));
      setBy.set(path, `--${flag.name}`);
    }
  }
  const values: Record<string, unknown> = {};
  for (const [setting, text] of texts) {
    const row = rows.get(setting);
    if (row === undefined) continue;
    const report = ({ kind, message }: Problem) =>
      void problems.push({ setting, kind, line: `${setBy.get(setting)}: ${message}` });
    const value = checkValue(row, { value: text, report });
    if (value !== undefined) values[setting] = value;
  }
  return { values, setBy, problems };
}

/** Returns the value of a repeated flag. Lists and maps grow; of other values the last one counts. */
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
  // kube-proxy reads a number that begins with 0 as octal.
  integer: (input) =>
    /^[+-]?(?:0|[1-9]\d*)$/.test(input) ? Number(input) : new Fault("must be a whole number"),
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
