/**
 * The completion script for zsh.
 *
 * @module
 */
import {
  type CompletedCommand,
  completedCommands,
  type CompletedFlag,
  completedFlags,
  quoted,
  SOURCE_FLAG_NAMES,
} from "./words.ts";

/** The script's text. */
export function zshScript(): string {
  const flags = completedFlags();
  const commands = completedCommands();
  return `#compdef signpost
# zsh completion for signpost; made by: signpost completions zsh

_signpost_services() {
  local -a given services
  local i
  for ((i = 2; i < $#signpost_words; i++)); do
    case $signpost_words[i] in
      (${SOURCE_FLAG_NAMES.map((name) => `--${name}=*`).join("|")}) given+=($signpost_words[i]) ;;
      (${SOURCE_FLAG_NAMES.map((name) => `--${name}`).join("|")})
        given+=($signpost_words[i] $signpost_words[i+1]) ;;
    esac
  done
  services=(\${(f)"$(_call_program services $signpost_words[1] completions --services $given 2> /dev/null)"})
  compadd -a services
}

_signpost() {
  local -a signpost_words=($words)
  local command=run
  local -a commands=(
${commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`).join("\n")}
  )
  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  case $words[2] in
    (${commands.map(({ name }) => name).join("|")})
      command=$words[2]
      shift words
      ((CURRENT--))
      ;;
  esac
  case $command in
${commands.map((command) => commandCase(command, flags)).join("\n")}
  esac
}

if [[ $funcstack[1] == _signpost ]]; then
  _signpost "$@"
else
  compdef _signpost signpost
fi
`;
}

function commandCase(
  { name, words, takesServices, takesFiles }: CompletedCommand,
  flags: readonly CompletedFlag[],
): string {
  const operands = takesServices
    ? [`'*:service or packet:_signpost_services'`]
    : takesFiles
    ? [`'*:manifest:_files'`]
    : words.length > 0
    ? [`'1:word:(${words.join(" ")})'`]
    : [];
  const specs = flags.filter(({ commands }) => commands.includes(name)).flatMap(flagSpecs);
  return [
    `    (${name})`,
    "      _arguments -S : \\",
    ...[...specs, ...operands]
      .map((spec, i, all) => `        ${spec}${i < all.length - 1 ? " \\" : ""}`),
    "      ;;",
  ]
    .join("\n");
}

/** As `_arguments` wants them (zshcompsys(1)). */
function flagSpecs({ name, letter, help, operand, value, choices }: CompletedFlag): string[] {
  const text = help.replace(/[\][:\\]/g, "\\$&");
  const action = choices.length > 0
    ? `(${choices.join(" ")})`
    : operand === "file"
    ? "_files"
    : " ";
  const rest = operand === "nothing"
    ? `[${text}]`
    : `[${text}]:${value.replaceAll(":", "\\:")}:${action}`;
  const mark = operand === "nothing" ? "" : "=";
  return [
    quoted(`*--${name}${mark}${rest}`),
    ...letter === "" || letter === name
      ? []
      : [quoted(`*-${letter}${mark === "" ? "" : "+"}${rest}`)],
  ];
}
