import { assert, assertEquals } from "@std/assert";
import { COMPLETION_SCRIPTS, completions } from "../../lib/cli/completions.ts";
import { COMMAND_ROWS, COMMANDS, SHELLS } from "../../lib/config/commands.ts";
import { locateProgram } from "../../tools/programs.ts";
import { run } from "../support/command.ts";
import { runAsking } from "./runtime.ts";

/** Answers as a daemon at `/run/s.sock` does. */
function ask(socket: string, { path }: { readonly path: string }): Promise<unknown> {
  return socket === "/run/s.sock" && path === "/v1/services"
    ? Promise.resolve(["shop/web", "shop/db", "dev/web"])
    : Promise.reject(new Error("refused"));
}

/** Returns the output for a line; without a line, the script. */
async function printed(shell: "bash" | "zsh" | "fish", line?: readonly string[]): Promise<string> {
  const { printed, code } = await runAsking(
    { ask },
    (_, context) => completions({ name: "completions", shell, line }, context),
  );
  assertEquals(code, 0);
  return printed.join("");
}

/** Returns the words that are offered for a line. */
async function offered(...line: readonly string[]): Promise<string[]> {
  const lines = (await printed("bash", line)).split("\n").filter((word) => word !== "");
  return lines.map((each) => each.replace(/\t.*/, ""));
}

for (const shell of SHELLS) {
  Deno.test(`the script for ${shell} asks signpost with the words of the line`, async () => {
    const script = await printed(shell);
    assertEquals(script, COMPLETION_SCRIPTS[shell]);
    assert(script.includes(`signpost completions ${shell} -- `));
  });
}

Deno.test("zsh finds the script by its first line", async () => {
  assertEquals((await printed("zsh")).split("\n")[0], "#compdef signpost");
});

Deno.test("shells that show descriptions get those of commands and flags", async () => {
  assertEquals(
    (await printed("fish", [""])).split("\n"),
    [
      ...COMMANDS.map((name) => `${name}\t${COMMAND_ROWS[name].summary}`),
      "help\tshow help texts",
      "",
    ],
  );
  assertEquals(
    await printed("fish", ["cleanup", "--dry"]),
    "--dry-run\tPrint the rules that cleanup would remove. Nothing is changed.\n",
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
  [["explain", ""], ["dev/web", "shop/db", "shop/web", "to"]],
  [["explain", "shop/"], ["shop/db", "shop/web"]],
  [["top", "shop/"], ["shop/db", "shop/web"]],
  [["explain", "-v", "w"], ["web"]],
  [["explain", "--socket", "/run/other.sock", ""], ["to"]],
  [["verify", ""], []],
  [["diff", "w"], [":files"]],
  [["run", "--config", "w"], [":files"]],
  [["run", "--config=w"], [":files"]],
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

/** Stands in for signpost in the scripts of the shells. */
const PROGRAM = `#!/bin/sh
shift 3
for last in "$@"; do :; done
case "$last" in
  --config=*|o*) echo :files ;;
  --from=*) printf -- '--from=external\tthe sender\n' ;;
  *) printf '%s\t%s\n' shop/web 'port 80: http' shop/web-2 '' ;;
esac
`;

/** Scripts that print each shell's completions for a given line. */
const DRIVERS: Readonly<Record<"bash" | "zsh" | "fish", string>> = {
  // The words are parted as readline does it, at `:` and `=` too.
  bash: `COMP_LINE=$1 COMP_POINT=\${#1}
parted=\${1//:/ : } parted=\${parted//=/ = }
read -ra COMP_WORDS <<< "$parted"
_signpost
printf '%s\\n' "\${COMPREPLY[@]}"
`,
  zsh: `words=(\${(z)1}) CURRENT=\${#words}
_describe() { print -rl -- "\${(@P)3}" }
_files() { print -rl -- o* }
compset() { }
_signpost
`,
  fish: `complete -C "$argv[1]"\n`,
};

/** Returns the lines that a shell offers for a line with the cursor at its end. */
async function complete(shell: "bash" | "zsh" | "fish", line: string): Promise<string[]> {
  const folder = await Deno.makeTempDir({ prefix: "signpost-completions-" });
  try {
    for (const name of ["one.yaml", "other.txt"]) await Deno.writeTextFile(`${folder}/${name}`, "");
    await Deno.writeTextFile(`${folder}/signpost`, PROGRAM, { mode: 0o755 });
    const start = shell === "zsh" ? "compdef() { }\n" : "";
    const driver = `${start}${COMPLETION_SCRIPTS[shell]}\n${DRIVERS[shell]}`;
    const args = shell === "fish" ? [line] : [shell, line];
    const output = await run([shell, "-c", driver, ...args], {
      cwd: folder,
      env: { PATH: `${folder}:${Deno.env.get("PATH")}` },
    });
    return output.split("\n").filter((word) => word !== "");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** By shell and line, what is offered. */
const OFFERED: readonly (readonly ["bash" | "zsh" | "fish", string, readonly string[]])[] = [
  ["bash", "signpost explain shop/w", ["shop/web", "shop/web-2"]],
  ["bash", "signpost explain --from=e", ["external"]],
  ["bash", "signpost diff o", ["one.yaml", "other.txt"]],
  ["bash", "signpost --config=o", ["one.yaml", "other.txt"]],
  ["zsh", "signpost explain shop/w", ["shop/web-2:", "shop/web:port 80\\: http"]],
  ["zsh", "signpost explain --from=e", ["--from=external:the sender"]],
  ["zsh", "signpost diff o", ["one.yaml", "other.txt"]],
  ["fish", "signpost explain shop/w", ["shop/web\tport 80: http", "shop/web-2"]],
  ["fish", "signpost explain --from=e", ["--from=external\tthe sender"]],
  ["fish", "signpost --config=o", ["--config=one.yaml", "--config=other.txt"]],
];

for (const [shell, line, words] of OFFERED) {
  Deno.test({
    name: `${shell} offers for "${line}" what signpost answers`,
    ignore: locateProgram(shell) === undefined,
    fn: async () => assertEquals((await complete(shell, line)).sort(), words),
  });
}
