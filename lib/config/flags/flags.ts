/**
 * The command line: words in, checked settings and all problems out.
 *
 * @module
 */
import { append } from "../../model/values/lists.ts";
import type { CommandName, Flag } from "./flag.ts";
import { parseFlag } from "./values.ts";
import { checkValue, formatPath, type ProblemLine } from "../file/issues.ts";
import { type GivenFlag, scan } from "./scan.ts";
import { type GivenSettings, ROWS } from "../settings/table.ts";
import { isRecord } from "../../model/values/record.ts";

/** What a command line gives. */
export interface FlagResult {
  readonly command: CommandName;
  /** What follows the command and is no flag. */
  readonly words: readonly string[];
  /** True if `--help` or `--version` is there. */
  readonly information: "help" | "version" | undefined;
  /** What is right on the command line; without a key where it does not say. */
  readonly settings: GivenSettings;
  /** The flag that set a path: `conntrack.min` to `--conntrack-min`. */
  readonly setBy: ReadonlyMap<string, string>;
  /** All flags that were given, as `--name`. */
  readonly given: readonly string[];
  /** What is wrong with the command line, whatever the settings; one line each. */
  readonly errors: readonly string[];
  /** What is wrong with the settings: `--cluster-cidr: must be …`. */
  readonly problems: readonly ProblemLine[];
}

/** Reads the command line, without the program's name. */
export function readFlags(argv: readonly string[]): FlagResult {
  const { command: word, words, given, errors } = scan(argv);
  const values = new Map<string, unknown>();
  const setBy = new Map<string, string>();
  const wrong: string[] = [...errors];
  for (const { flag, text } of given) {
    const result = parseFlag(flag, text);
    if (result.type === "error") {
      wrong.push(`--${flag.name}: ${result.message}`);
      continue;
    }
    for (const path of flag.sets) {
      values.set(path, added(values.get(path), { flag, value: result.value }));
      setBy.set(path, `--${flag.name}`);
    }
  }
  const { settings, problems } = checkAll(values, setBy);
  const command = settings["command.cleanup"] && word === "run" ? "cleanup" : word;
  append(wrong, given.flatMap(({ flag }) => misplaced(flag, command)));
  return {
    command,
    words,
    information: informationOf(given),
    settings,
    setBy,
    given: [...new Set(given.map(({ flag }) => `--${flag.name}`))],
    errors: [...new Set(wrong)],
    problems,
  };
}

function informationOf(given: readonly GivenFlag[]): FlagResult["information"] {
  const asked = given.filter(({ text }) => text !== "false").map(({ flag }) => flag.name);
  return asked.includes("help") ? "help" : asked.includes("version") ? "version" : undefined;
}

function misplaced(flag: Flag, command: CommandName): string[] {
  if (flag.only === undefined || flag.only.includes(command)) return [];
  const commands = flag.only.length === 1 ? "command" : "commands";
  return [
    `--${flag.name}: is only for the ${commands} ${flag.only.join(", ")}, not for ${command}`,
  ];
}

/** What a flag sets: lists that are given twice grow, everything else is replaced. */
function added(
  old: unknown,
  { flag, value }: { readonly flag: Flag; readonly value: unknown },
): unknown {
  if (Array.isArray(old) && Array.isArray(value)) return [...old, ...value];
  return flag.kind === "map" && isRecord(old) && isRecord(value) ? { ...old, ...value } : value;
}

/** Checks each value; problems name the flag instead of the path of the setting. */
function checkAll(
  values: ReadonlyMap<string, unknown>,
  setBy: ReadonlyMap<string, string>,
): Pick<FlagResult, "settings" | "problems"> {
  const settings: Record<string, unknown> = {};
  const problems: ProblemLine[] = [];
  for (const [path, value] of values) {
    const row = ROWS.get(path);
    const checked = row === undefined ? undefined : checkValue(row, value);
    if (checked?.type === "value") settings[path] = checked.value;
    for (const problem of checked?.type === "problems" ? checked.problems : []) {
      const inside = problem.path.filter((key) => typeof key !== "number");
      const place = inside.length === 0 ? "" : `${formatPath(inside)}: `;
      const line = `${setBy.get(path)}: ${place}${problem.message}`;
      problems.push({ setting: path, kind: problem.kind, line });
    }
  }
  return { settings, problems };
}
