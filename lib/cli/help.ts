/** Renders the help texts: an overview of all commands, and a page for each. */
import { wrap } from "./follow.ts";
import { COMMAND_ROWS, type CommandName, COMMANDS, flagGroupsOf } from "../config/commands.ts";
import { UNUSED_TITLE } from "../config/settings.ts";
import { capitalized } from "../model/values/text.ts";

/** The least columns for descriptions. A narrower terminal breaks the lines. */
const MIN_DESCRIPTION = 20;

/** Returns the help text of a command, or the overview. @param columns of the terminal; `undefined`: no limit */
export function helpText(command?: CommandName, columns?: number): string {
  const parts = command === undefined ? overview(columns) : commandPage(command, columns);
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

function overview(columns: number | undefined): string[] {
  const groups = Map.groupBy(COMMANDS, (name) => COMMAND_ROWS[name].group);
  return [
    "signpost: a kube-proxy replacement for a Linux node",
    section("Usage", ["signpost [run] [flags]", "signpost COMMAND [flags]"]),
    ...[...groups].map(([title, names]) =>
      section(title, twoColumns(names.map((name) => [name, COMMAND_ROWS[name].summary]), columns))
    ),
    'Use "signpost help COMMAND" for the flags of a command, "signpost help run" for the daemon\'s.',
  ];
}

function commandPage(command: CommandName, columns: number | undefined): string[] {
  const { summary, usage, about = "", examples, exitCodes, shares } = COMMAND_ROWS[command];
  const groups = flagGroupsOf(command);
  const width = widthOf(groups.flatMap(({ flags }) => flags.map(({ usage }) => usage)));
  return [
    `${capitalized(summary)}.`,
    section("Usage", usage.map((line) => `signpost ${line}`)),
    about,
    ...groups.map(({ title, flags }) =>
      title === UNUSED_TITLE
        ? section(title, flags.map(({ name }) => `--${name}`))
        : section(title, twoColumns(flags.map(({ usage, help }) => [usage, help]), columns, width))
    ),
    shares === "all" || shares === undefined
      ? ""
      : 'It takes the other flags of the daemon, too: see "signpost help run".',
    section("Examples", examples),
    section("Exit codes", exitCodes.map(([code, text]) => `${code}  ${text}`)),
  ];
}

function section(title: string, lines: readonly string[]): string {
  return `${title}:\n${lines.map((line) => `  ${line}`).join("\n")}`;
}

/** Sets names and descriptions side by side; descriptions are wrapped to the terminal. */
function twoColumns(
  rows: readonly (readonly [name: string, description: string])[],
  columns = Infinity,
  width = widthOf(rows.map(([name]) => name)),
): string[] {
  const room = columns - width - 4;
  return rows.flatMap(([name, description]) =>
    wrap(description, room < MIN_DESCRIPTION ? Infinity : room).map((line, i) =>
      `${(i === 0 ? name : "").padEnd(width)}  ${line}`
    )
  );
}

function widthOf(texts: readonly string[]): number {
  return texts.reduce((width, { length }) => Math.max(width, length), 0);
}
