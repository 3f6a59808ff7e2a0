/** `signpost completions`: prints a script for a shell, or the candidates that the script asks for at each Tab key. */
import type { CommandOf, Shell } from "../config/command.ts";
import {
  COMMAND_ROWS,
  type CommandName,
  COMMANDS,
  FILES,
  flagGroupsOf,
} from "../config/commands.ts";
import type { Flag } from "../config/setting.ts";
import { readCommandLine, splitFlag } from "../config/command_line.ts";
import { UNUSED_TITLE } from "../config/settings.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { splitKey } from "../model/cluster/names.ts";
import { askServices } from "./client.ts";

/** A word, and the description that zsh and fish show beside it. */
type Completion = readonly [word: string, description?: string];

/** Scripts that call signpost with the words up to the cursor. It prints lines: a word, a tab, a description. */
export const COMPLETION_SCRIPTS: Readonly<Record<Shell, string>> = {
  // bash splits words at : and =, and replaces only the last part.
  bash: `_signpost() {
  local words line word prefix
  read -ra words <<< "\${COMP_LINE:0:COMP_POINT}"
  [[ \${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
  word=\${words[-1]}
  prefix=\${word%"\${word##*[:=]}"}
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2> /dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "\${word#"$prefix"}")
    else
      line=\${line%%$'\\t'*}
      COMPREPLY+=("\${line#"$prefix"}")
    fi
  done < <(signpost completions bash -- "\${words[@]:1}" 2> /dev/null)
}
complete -F _signpost signpost
`,
  zsh: `#compdef signpost
_signpost() {
  local line
  local -a candidates
  for line in "\${(@f)$(signpost completions zsh -- "\${(@)words[2,CURRENT]}" 2> /dev/null)}"; do
    case $line in
      '') ;;
      :files) compset -P '--[^=]#='; _files ;;
      *) candidates+=("\${\${line//:/\\:}/$'\\t'/:}") ;;
    esac
  done
  (( \${#candidates} == 0 )) || _describe -V signpost candidates
}
if [ "$funcstack[1]" = _signpost ]; then _signpost "$@"; else compdef _signpost signpost; fi
`,
  fish: `function __signpost_complete
  set -l word (commandline -ct)
  set -l words (commandline -opc) $word
  for line in (signpost completions fish -- $words[2..-1] 2> /dev/null)
    if test "$line" = :files
      set -l flag (string match -r -- '^--[^=]*=' $word)
      for path in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$word"))
        echo "$flag$path"
      end
    else
      echo $line
    end
  end
end
complete -c signpost -f -a '(__signpost_complete)'
`,
};

interface CompletionsContext {
  readonly configuration: { readonly signpost: { readonly socket: string } };
  readonly runtime: Pick<Runtime, "print" | "askDaemon">;
}

/** Prints the script of a shell, or the candidates for a line. @returns 0 */
export async function completions(
  { shell, line }: CommandOf<"completions">,
  context: CompletionsContext,
): Promise<number> {
  const { print } = context.runtime;
  if (line === undefined) await print(COMPLETION_SCRIPTS[shell]);
  else {
    const candidates = await candidatesFor(line, context);
    await print(candidates.map((each) => `${each.join("\t")}\n`).join(""));
  }
  return 0;
}

/** Returns the candidates for the last word. @param line the words after `signpost`, up to the cursor */
async function candidatesFor(
  line: readonly string[],
  context: CompletionsContext,
): Promise<readonly Completion[]> {
  const named = line.length > 1 ? COMMANDS.find((name) => name === line[0]) : undefined;
  const command = named ?? "run";
  const last = line.at(-1) ?? "";
  const before = splitFlag(line.at(-2) ?? "", command);
  const isValue = before.flag && before.flag.kind !== "boolean" &&
    before.flag.alone === undefined &&
    before.text === undefined;
  if (isValue) return startingWith(last, valuesOf(before.flag));
  if (!last.startsWith("-")) {
    const services = named !== undefined && TAKING_SERVICES.has(named)
      ? await servicesFor(line, context)
      : [];
    return startingWith(last, [...services, ...wordsAfter(named, line)]);
  }
  const { flag, name, text } = splitFlag(last, command);
  if (!last.includes("=")) return startingWith(last, flagsOf(command));
  if (!flag || text === undefined) return [];
  const values = startingWith(text, valuesOf(flag));
  return values.map(([word]) => [word === FILES ? word : `${name}=${word}`]);
}

/** The commands that take names of Services. */
const TAKING_SERVICES: ReadonlySet<CommandName> = new Set(["explain", "test", "top", "observe"]);

/** Milliseconds to wait for the daemon at a Tab key. */
const PATIENCE = 1_000;

/** Returns the daemon's Services, also without their namespaces; empty if the daemon does not answer. */
async function servicesFor(
  line: readonly string[],
  { configuration, runtime }: CompletionsContext,
): Promise<Completion[]> {
  const { "signpost.socket": socket = configuration.signpost.socket } =
    readCommandLine(line).values;
  const daemon = { configuration: { signpost: { socket } }, runtime };
  const keys = await askServices(daemon, { timeout: PATIENCE }).catch(() => []);
  // An empty word is completed only to names with a namespace.
  const names = line.at(-1) === "" ? [] : keys.map((key) => splitKey(key).name);
  return [...new Set([...keys, ...names])].sort().map((word): Completion => [word]);
}

function startingWith(prefix: string, candidates: readonly Completion[]): Completion[] {
  return candidates.filter(([word]) => word === FILES || word.startsWith(prefix));
}

/** Returns the flags in a command's help, without flags that have no effect. */
function flagsOf(command: CommandName): Completion[] {
  return flagGroupsOf(command).filter(({ title }) => title !== UNUSED_TITLE)
    .flatMap(({ flags }) => flags.map(({ name, help }): Completion => [`--${name}`, help]));
}

function valuesOf({ choices = [], value }: Flag): readonly Completion[] {
  if (choices.length > 0) return choices.map((choice): Completion => [choice]);
  return value === "FILE" || value === "PATH" ? [[FILES]] : [];
}

/** Returns the words, besides flags, that a command takes. */
function wordsAfter(
  command: CommandName | undefined,
  line: readonly string[],
): readonly Completion[] {
  if (command !== undefined) {
    return COMMAND_ROWS[command].words?.map((word): Completion => [word]) ?? [];
  }
  const commands = COMMANDS.map((name): Completion => [name, COMMAND_ROWS[name].summary]);
  if (line.length <= 1) return [...commands, ["help", "show help texts"]];
  return line.length === 2 && line[0] === "help" ? commands : [];
}
