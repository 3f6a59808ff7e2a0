import { assert, assertEquals } from "@std/assert";
import { completions, completionScript } from "../../../lib/cli/completions/command.ts";
import { SHELLS } from "../../../lib/config/flags/arguments.ts";
import { COMMAND_FACTS } from "../../../lib/config/flags/commands.ts";
import { COMMANDS } from "../../../lib/config/flags/flag.ts";
import { run } from "../../support/command.ts";
import { world } from "../runtime.ts";

/** Returns the output for a line; without a line, the script. */
async function printed(
  shell: "bash" | "zsh" | "fish",
  line?: readonly string[],
): Promise<string> {
  const { runtime, printed } = world();
  assertEquals(await completions({ name: "completions", shell, line }, runtime), 0);
  return printed.join("");
}

/** Returns the words that are offered for a line. */
async function offered(...line: readonly string[]): Promise<string[]> {
  return (await printed("bash", line)).split("\n").filter((word) => word !== "");
}

for (const shell of SHELLS) {
  Deno.test(`the script for ${shell} asks signpost with the words of the line`, async () => {
    const script = await printed(shell);
    assertEquals(script, completionScript(shell));
    assert(script.includes(`signpost 'completions' '${shell}' '--'`));
  });
}

Deno.test("zsh finds the script by its first line", async () => {
  assertEquals((await printed("zsh")).split("\n")[0], "#compdef signpost");
});

Deno.test("shells that show descriptions get those of commands and flags", async () => {
  assertEquals(
    (await printed("fish", [""])).split("\n"),
    [
      ...COMMANDS.map((name) => `${name}\t${COMMAND_FACTS[name].summary}`),
      "help\tshow help texts",
    ],
  );
  assertEquals(
    await printed("fish", ["cleanup", "--dry"]),
    "--dry-run\tPrint what would be removed; touch nothing.",
  );
});

/** Words of a line, and what is offered. */
const LINES: readonly (readonly [readonly string[], readonly string[]])[] = [
  [["ex"], ["explain"]],
  [["--onc"], ["--once"]],
  [["explain", "--tr"], ["--trace"]],
  [["verify", "--tr"], []],
  [["explain", "--from", ""], ["pod", "node", "external"]],
  [["explain", "--from=e"], ["--from=external"]],
  [["explain", "-v4", "--cluster_cidr", "x", "--trace=false", "--from", "n"], ["node"]],
  [["explain", "-o", ""], ["table", "json", "yaml"]],
  [["-o", ""], ["script", "json"]],
  [["--kube-api-b"], []],
  [["completions", ""], [...SHELLS]],
  [["status", ""], []],
  [["help", "ex"], ["explain"]],
  [["--once", ""], []],
  [["explain", "10.244.0.7", "t"], ["to"]],
  [["explain", "--manifests=/nowhere", "t"], ["to"]],
  [["explain", ""], ["to"]],
];

for (const [line, words] of LINES) {
  Deno.test(`for "${line.join(" ")}" is offered: ${words.join(" ") || "nothing"}`, async () => {
    assertEquals(await offered(...line), words);
  });
}

Deno.test("every flag that has an effect is offered, with both of its dashes", async () => {
  const flags = await offered("run", "--");
  assert(flags.length > 50, `${flags.length}`);
  for (const name of ["--kubeconfig", "--v", "--wait", "--help"]) {
    assert(flags.includes(name), name);
  }
});

/**
 * Returns the words that bash offers for a line with the cursor at its end. The words are parted as readline does
 * it, at `:` and `=` too; signpost itself is a function.
 */
async function complete(line: string): Promise<string[]> {
  const driver = `${completionScript("bash")}
signpost() { shift 3; case "\${@: -1}" in
  --config=*|diff*|o*) echo "__FILE__:any:::0" ;;
  --from=*) echo --from=external ;;
  *) printf '%s\\n' shop/web shop/web-2 ;; esac; }
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

Deno.test("bash takes what signpost offers: words, files, and values after =", async () => {
  assertEquals(await complete("signpost explain shop/w"), ["shop/web", "shop/web-2"]);
  assertEquals(await complete("signpost explain --from=e"), ["external"]);
  assertEquals((await complete("signpost diff o")).sort(), ["one.yaml", "other.txt"]);
});
