/** Renders the help texts: an overview of all commands, and a page for each. */
import { wrap } from "./follow.ts";
import { COMMAND_ROWS, type CommandName, COMMANDS, flagGroupsOf } from "../config/commands.ts";
import { UNUSED_TITLE } from "../config/settings.ts";
import { capitalized } from "../model/values/text.ts";

/** The most columns of a help text, also of an unknown terminal. */
const MOST_COLUMNS = 80;

/** The least columns for descriptions. A narrower terminal breaks the lines itself. */
const LEAST_DESCRIPTION = 20;

/** Returns the help text of a command, or the overview. @param columns of the terminal; `undefined`: not known */
export function helpText(command?: CommandName, columns = MOST_COLUMNS): string {
  const width = Math.min(columns, MOST_COLUMNS);
  const parts = command === undefined ? overview(width) : commandPage(command, width);
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

function overview(columns: number): string[] {
  const groups = Map.groupBy(COMMANDS, (name) => COMMAND_ROWS[name].group);
  return [
    "signpost: a kube-proxy replacement for a Linux node",
    section("Usage", ["signpost [run] [flags]", "signpost COMMAND [flags]"]),
    ...[...groups].map(([title, names]) => {
      const width = names.reduce((most, { length }) => Math.max(most, length), 0);
      const lines = names.flatMap((name) =>
        sideBySide(name.padEnd(width), COMMAND_ROWS[name].summary, columns - 2)
      );
      return section(title, lines);
    }),
    paragraphs(
      'Use "signpost help COMMAND" for the flags of a command, "signpost help run" for the daemon\'s.',
      columns,
    ),
  ];
}

function commandPage(command: CommandName, columns: number): string[] {
  const { summary, usage, about = "", examples, exitCodes, shares } = COMMAND_ROWS[command];
  return [
    `${capitalized(summary)}.`,
    section("Usage", usage.map((line) => `signpost ${line}`)),
    paragraphs(about, columns),
    section("Examples", examples),
    ...flagGroupsOf(command).map(({ title, flags }) =>
      title === UNUSED_TITLE
        ? section(title, flags.map(({ name }) => `--${name}`))
        : section(title, flags.flatMap(({ usage, help }) => [usage, ...indented(help, columns)]))
    ),
    shares === "all" || shares === undefined
      ? ""
      : 'It takes the other flags of the daemon, too: see "signpost help run".',
    section(
      "Exit codes",
      exitCodes.flatMap(([code, text]) => sideBySide(`${code}`, text, columns - 2)),
    ),
  ];
}

function section(title: string, lines: readonly string[]): string {
  return `${title}:\n${lines.map((line) => `  ${line}`).join("\n")}`;
}

/** Wraps paragraphs, which have an empty line between them. */
function paragraphs(text: string, columns: number): string {
  const texts = text.split("\n\n").map((each) => wrapped(each.replaceAll("\n", " "), columns));
  return texts.map((lines) => lines.join("\n")).join("\n\n");
}

/** Wraps a description below its flag. A section adds two columns. */
function indented(text: string, columns: number): string[] {
  return wrapped(text, columns - 8).map((line) => `      ${line}`);
}

/** Sets a description beside its name. */
function sideBySide(name: string, text: string, columns: number): string[] {
  const lines = wrapped(text, columns - name.length - 2);
  return lines.map((line, i) => `${i === 0 ? name : " ".repeat(name.length)}  ${line}`);
}

function wrapped(text: string, room: number): string[] {
  return wrap(text, room < LEAST_DESCRIPTION ? Infinity : room);
}
