/**
 * The completion script for bash. It needs no helper of the package bash-completion.
 *
 * @module
 */
import {
  completedCommands,
  type CompletedFlag,
  completedFlags,
  quoted,
  SOURCE_FLAG_NAMES,
} from "./words.ts";

/** The script's text. */
export function bashScript(): string {
  const flags = completedFlags();
  const commands = completedCommands();
  const names = commands.map(({ name }) => name);
  return `# bash completion for signpost; made by: signpost completions bash

# The words of the line up to the cursor; bash's own would be cut at : and =.
__signpost_words() {
  local line="\${COMP_LINE:0:COMP_POINT}"
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
}

# The flags that say where Services come from, with their values.
__signpost_source() {
  local i
  source=()
  for ((i = 1; i < \${#words[@]} - 1; i++)); do
    case "\${words[i]}" in
      ${either(SOURCE_FLAG_NAMES.map((name) => `--${name}=*`))}) source+=("\${words[i]}") ;;
      ${either(SOURCE_FLAG_NAMES.map((name) => `--${name}`))})
        source+=("\${words[i]}" "\${words[i + 1]}") ;;
    esac
  done
}

__signpost_flags() {
  case "$1" in
${names.map((name) => `    ${name}) echo ${quoted(flagWords(flags, name))} ;;`).join("\n")}
  esac
}

# Values of a flag: some words, or FILES.
__signpost_values() {
  case "$1 $2" in
${flags.flatMap((flag) => valueCases(flag)).join("\n")}
    *) return 1 ;;
  esac
}

# Flags whose value is the next word.
__signpost_takes_value() {
  case "$1" in
    ${either(flags.filter(({ operand }) => operand !== "nothing").flatMap(spellings))}) ;;
    *) return 1 ;;
  esac
}

_signpost() {
  local words source current last prefix command=run flag values candidate
  __signpost_words
  current="\${words[-1]}"
  last="\${COMP_WORDS[COMP_CWORD]}"
  [[ $last == [:=] ]] && last=""
  prefix="\${current%"$last"}"
  COMPREPLY=()
  case " ${names.join(" ")} " in
    *" \${words[1]} "*) ((\${#words[@]} > 2)) && command="\${words[1]}" ;;
  esac

  if [[ $current == --*=* ]]; then
    flag="\${current%%=*}" values="$(__signpost_values "$command" "$flag")"
    current="\${current#*=}" prefix=""
  elif ((\${#words[@]} > 2)) && __signpost_takes_value "\${words[-2]}"; then
    values="$(__signpost_values "$command" "\${words[-2]}")"
  elif [[ $current == -* ]]; then
    values="$(__signpost_flags "$command")"
  else
    values="$(__signpost_operands "$command" "\${#words[@]}")"
  fi
  if [[ $values == FILES ]]; then
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$last")
    return
  fi
  while read -r candidate; do
    [[ -n $candidate && $candidate == "$current"* ]] && COMPREPLY+=("\${candidate#"$prefix"}")
  done < <(tr ' ' '\\n' <<< "$values")
}

__signpost_operands() {
  (($2 == 2)) && echo ${names.join(" ")}
  case "$1" in
${
    commands.flatMap(({ name, words, takesServices, takesFiles }) => [
      ...words.length > 0 ? [`    ${name}) echo ${words.join(" ")} ;;&`] : [],
      ...takesServices ? [`    ${name}) __signpost_services ;;`] : [],
      ...takesFiles ? [`    ${name}) echo FILES ;;`] : [],
    ]).join("\n")
  }
  esac
}

__signpost_services() {
  __signpost_source
  "\${words[0]}" completions --services "\${source[@]}" 2> /dev/null
}

complete -F _signpost signpost
`;
}

function spellings({ name, letter }: CompletedFlag): string[] {
  return [`--${name}`, ...letter === "" ? [] : [`-${letter}`]];
}

function either(patterns: readonly string[]): string {
  return [...new Set(patterns)].join(" | ");
}

function flagWords(flags: readonly CompletedFlag[], command: string): string {
  return flags.filter(({ commands }) => commands.some((name) => name === command))
    .map(({ name }) => `--${name}`).join(" ");
}

function valueCases(flag: CompletedFlag): string[] {
  const { commands, operand, choices } = flag;
  const values = operand === "file" ? "FILES" : choices.join(" ");
  if (values === "") return [];
  const patterns = commands.flatMap((command) =>
    spellings(flag).map((spelling) => `"${command} ${spelling}"`)
  );
  return [`    ${patterns.join(" | ")}) echo ${quoted(values)} ;;`];
}
