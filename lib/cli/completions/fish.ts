/**
 * The completion script for fish.
 *
 * @module
 */
import { COMMANDS } from "../../config/flags/flag.ts";
import {
  completedCommands,
  type CompletedFlag,
  completedFlags,
  SOURCE_FLAG_NAMES,
} from "./words.ts";

/** The script's text. */
export function fishScript(): string {
  const commands = completedCommands();
  return `# fish completion for signpost; made by: signpost completions fish

function __signpost_command
    set -l words (commandline -opc)
    if contains -- "$words[2]" ${COMMANDS.join(" ")}
        echo $words[2]
    else
        echo run
    end
end

function __signpost_is
    contains -- (__signpost_command) $argv
end

function __signpost_needs_command
    test (count (commandline -opc)) -eq 1
end

function __signpost_services
    set -l words (commandline -opc)
    set -l given
    for i in (seq 2 (count $words))
        switch $words[$i]
            case ${SOURCE_FLAG_NAMES.map((name) => `'--${name}=*'`).join(" ")}
                set -a given $words[$i]
            case ${SOURCE_FLAG_NAMES.map((name) => `--${name}`).join(" ")}
                set -a given $words[$i] $words[(math $i + 1)]
        end
    end
    $words[1] completions --services $given 2>/dev/null
end

complete -c signpost -f
${
    commands.map(({ name, summary }) =>
      `complete -c signpost -n __signpost_needs_command -a ${name} -d ${quote(summary)}`
    ).join("\n")
  }
${
    commands.flatMap(({ name, words, takesServices, takesFiles }) => [
      ...words.length > 0
        ? [`complete -c signpost -n '__signpost_is ${name}' -a ${quote(words.join(" "))}`]
        : [],
      ...takesServices
        ? [`complete -c signpost -n '__signpost_is ${name}' -a '(__signpost_services)'`]
        : [],
      ...takesFiles ? [`complete -c signpost -n '__signpost_is ${name}' -F`] : [],
    ]).join("\n")
  }
${completedFlags().map(flagLine).join("\n")}
`;
}

function flagLine({ name, letter, help, operand, choices, commands }: CompletedFlag): string {
  const isForAll = commands.length === COMMANDS.length;
  return [
    "complete -c signpost",
    ...isForAll ? [] : [`-n '__signpost_is ${commands.join(" ")}'`],
    ...name.length === 1 ? [] : [`-l ${name}`],
    ...letter === "" ? [] : [`-s ${letter}`],
    ...operand === "nothing" ? [] : [operand === "file" ? "-r -F" : "-x"],
    ...choices.length > 0 ? [`-a ${quote(choices.join(" "))}`] : [],
    `-d ${quote(help)}`,
  ].join(" ");
}

/** fish knows only two escapes between single quotes. */
function quote(text: string): string {
  return `'${text.replace(/[\\']/g, "\\$&")}'`;
}
