import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { bashScript } from "../../../lib/cli/completions/bash.ts";
import { fishScript } from "../../../lib/cli/completions/fish.ts";
import { completedFlags } from "../../../lib/cli/completions/words.ts";
import { zshScript } from "../../../lib/cli/completions/zsh.ts";
import { COMMAND_FACTS } from "../../../lib/config/flags/commands.ts";
import { COMMANDS } from "../../../lib/config/flags/flag.ts";
import { run } from "../../support/command.ts";

const SCRIPTS = { bash: bashScript(), zsh: zshScript(), fish: fishScript() };

for (const [shell, script] of Object.entries(SCRIPTS)) {
  Deno.test(`the script for ${shell} has every command and every flag that is worth it`, () => {
    for (const command of COMMANDS) {
      assert(new RegExp(`\\b${command}\\b`).test(script), command);
    }
    for (const { name, choices } of completedFlags()) {
      const isThere = name.length === 1 || new RegExp(`(?:--|-l )${name}\\b`).test(script);
      assert(isThere, name);
      if (choices.length > 0) assertStringIncludes(script, choices.join(" "));
    }
    for (const hidden of ["--services=", "ipvs-scheduler"]) {
      assert(!script.includes(hidden), hidden);
    }
  });
}

Deno.test("scripts for zsh and fish say what commands do", () => {
  for (const command of COMMANDS) {
    for (const script of [SCRIPTS.zsh, SCRIPTS.fish]) {
      assertStringIncludes(script, COMMAND_FACTS[command].summary.replaceAll("'", "\\'"));
    }
  }
});

/**
 * What bash offers for a line with the cursor at its end. The words are parted as readline does
 * it, at `:` and `=` too; signpost itself is a function that tells how it was called.
 */
async function complete(line: string): Promise<string[]> {
  const driver = `${SCRIPTS.bash}
signpost() { echo "ns/called-with-$(echo "$*" | tr ' /' '__')"; echo shop/web; echo shop/web-2; }
COMP_LINE=$1 COMP_POINT=\${#1}
parted=\${1//:/ : } parted=\${parted//=/ = }
read -ra COMP_WORDS <<< "$parted"
[[ $1 == *[[:space:]] ]] && COMP_WORDS+=("")
COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
_signpost
printf '%s\\n' "\${COMPREPLY[@]}"
`;
  const folder = await Deno.makeTempDir({ prefix: "signpost-completions-" });
  try {
    for (const name of ["one.yaml", "other.txt"]) await Deno.writeTextFile(`${folder}/${name}`, "");
    const output = await run(["bash", "-c", driver, "bash", line], { cwd: folder });
    return output.split("\n").filter((word) => word !== "");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Lines, and what is offered. */
const OFFERED: readonly (readonly [string, readonly string[]])[] = [
  ["signpost ", [...COMMANDS]],
  ["signpost ex", ["explain"]],
  ["signpost explain --tr", ["--trace"]],
  ["signpost verify --tr", []],
  ["signpost explain --from ", ["pod", "node", "external"]],
  ["signpost explain --from n", ["node"]],
  ["signpost explain --from=e", ["external"]],
  ["signpost explain --output=", ["table", "json", "yaml"]],
  ["signpost -o ", ["script", "json"]],
  ["signpost --proxy-mode ipt", ["iptables"]],
  ["signpost completions ", ["bash", "zsh", "fish"]],
  ["signpost explain shop/w", ["shop/web", "shop/web-2"]],
  ["signpost explain --kubeconfig f --trace --manifests=m ns/", [
    "ns/called-with-completions_--services_--kubeconfig_f_--manifests=m",
  ]],
  ["signpost diff o", ["one.yaml", "other.txt"]],
  ["signpost diff --manifests on", ["one.yaml"]],
  ["signpost --config=ot", ["other.txt"]],
];

for (const [line, offered] of OFFERED) {
  Deno.test(`bash offers for "${line}": ${offered.join(" ") || "nothing"}`, async () => {
    assertEquals((await complete(line)).sort(), [...offered].sort());
  });
}
