/**
 * The command line: words in, checked settings and all problems out.
 *
 * @module
 */
import type { CommandName, Flag } from "./flags/flag.ts";
import { parseFlag } from "./grammar.ts";
import { check, formatPath, type Path, type Problem, type ProblemLine } from "./issues.ts";
import { type GivenFlag, scan } from "./scan.ts";
import { flagSchema, type FlagSettings } from "./schema.ts";

/** What a command line gives. */
export interface FlagResult {
  readonly command: CommandName;
  /** What follows the command and is no flag. */
  readonly words: readonly string[];
  /** Whether `--help` or `--version` is there. */
  readonly information: "help" | "version" | undefined;
  /** What is right on the command line; without a key where it does not say. */
  readonly settings: FlagSettings;
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
  const document: Record<string, unknown> = {};
  const setBy = new Map<string, string>();
  const wrong: string[] = [...errors];
  for (const { flag, text } of given) {
    const result = parseFlag(flag, text);
    if (result.type === "error") {
      wrong.push(`--${flag.name}: ${result.message}`);
      continue;
    }
    for (const path of flag.sets) {
      setAt(document, path.split("."), { flag, value: result.value });
      setBy.set(path, `--${flag.name}`);
    }
  }
  const checked = check(flagSchema, document);
  const settings = checked.settings ?? {};
  const command = settings.command?.cleanup && word === "run" ? "cleanup" : word;
  wrong.push(...given.flatMap(({ flag }) => misplaced(flag, command)));
  return {
    command,
    words,
    information: informationOf(given),
    settings,
    setBy,
    given: [...new Set(given.map(({ flag }) => `--${flag.name}`))],
    errors: [...new Set(wrong)],
    problems: checked.problems.map((problem) => ({
      setting: formatPath(problem.path),
      kind: problem.kind,
      line: describe(problem, setBy),
    })),
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

/** Sets a value; lists that are given twice grow, everything else is replaced. */
function setAt(
  document: Record<string, unknown>,
  path: readonly string[],
  { flag, value }: { readonly flag: Flag; readonly value: unknown },
): void {
  const [key = "", ...rest] = path;
  const old = document[key];
  if (rest.length > 0) {
    const inner: Record<string, unknown> = isRecord(old) ? old : {};
    document[key] = inner;
    setAt(inner, rest, { flag, value });
  } else if (Array.isArray(old) && Array.isArray(value)) {
    document[key] = [...old, ...value];
  } else if (flag.kind === "map" && isRecord(old) && isRecord(value)) {
    document[key] = { ...old, ...value };
  } else {
    document[key] = value;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Names the flag instead of the path of the setting. */
function describe({ path, message }: Problem, setBy: ReadonlyMap<string, string>): string {
  for (let length = path.length; length > 0; length--) {
    const flag = setBy.get(path.slice(0, length).join("."));
    if (flag === undefined) continue;
    const inside: Path = path.slice(length).filter((key) => typeof key !== "number");
    return `${flag}: ${inside.length === 0 ? "" : `${formatPath(inside)}: `}${message}`;
  }
  return `${formatPath(path)}: ${message}`;
}
