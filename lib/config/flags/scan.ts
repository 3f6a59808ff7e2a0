/**
 * Splits a command line into its command and its flags, as pflag does for kube-proxy:
 * `--flag=value`, `--flag value`, `--switch`, `-v4`, `-v=4`, `-v 4`, `_` for `-` in names, and `--`
 * before words that are no flags.
 *
 * @module
 */
import { append } from "../../model/values/lists.ts";
import { COMMAND_FACTS } from "./commands.ts";
import { type CommandName, COMMANDS, type Flag } from "./flag.ts";
import { findFlag, FLAGS } from "./table.ts";
import { nearest, plain, show } from "../../model/values/text.ts";

/** A flag on the command line and the text that came with it. */
export interface GivenFlag {
  readonly flag: Flag;
  readonly text: string;
}

/** A command line in pieces. */
export interface Scan {
  readonly command: CommandName;
  /** Other words than flags, where the command takes such. */
  readonly words: readonly string[];
  /** In the order of the command line. */
  readonly given: readonly GivenFlag[];
  readonly errors: readonly string[];
}

/** Splits a command line; names are checked, values are not. */
export function scan(argv: readonly string[]): Scan {
  const given: GivenFlag[] = [];
  const words: string[] = [];
  const errors: string[] = [];
  const [first] = argv;
  const named = COMMANDS.find((name) => name === first);
  const command = named ?? "run";
  const { takesWords } = COMMAND_FACTS[command];
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

/** Returns the flag that a token names, and the text that it brings. */
export function splitFlag(token: string, command: CommandName): Token {
  const [name, text] = cut(token);
  if (name.startsWith("--")) {
    const wanted = name.slice(2).replaceAll("_", "-");
    return { flag: findFlag(wanted, command), name, text };
  }
  const isLong = name.length > 2 && FLAGS.some((flag) => flag.name === name.slice(1));
  const flag = isLong || !name.startsWith("-")
    ? undefined
    : findFlag(FLAGS.find(({ letter }) => letter && letter === name[1])?.name ?? "", command);
  if (flag === undefined || name.length === 2) return { flag, name, text };
  return { flag, name: name.slice(0, 2), text: token.slice(2) };
}

function cut(token: string): [string, string | undefined] {
  const equals = token.indexOf("=");
  return equals < 0 ? [token, undefined] : [token.slice(0, equals), token.slice(equals + 1)];
}

function unknown(name: string): string {
  const meant = nearest(name.replace(/^-+/, ""), FLAGS.map((flag) => flag.name));
  return `${plain(name)}: unknown flag${meant === undefined ? "" : ` (did you mean --${meant}?)`}`;
}

function unexpected(word: string, before: GivenFlag | undefined): string {
  if (before?.flag.kind === "boolean" && (word === "true" || word === "false")) {
    return `${word}: unexpected word (write --${before.flag.name}=${word})`;
  }
  const isCommand = COMMANDS.some((name) => name === word);
  if (isCommand) return `${word}: the command must be the first word`;
  return unexpectedWord(word);
}

/** Says that a word is no command, and names the nearest. */
export function unexpectedWord(word: string): string {
  const meant = nearest(word, [...COMMANDS, "help"]);
  const hint = meant === undefined ? `commands: ${COMMANDS.join(", ")}` : `did you mean ${meant}?`;
  return `${show(word)}: unknown command or unexpected word (${hint})`;
}
