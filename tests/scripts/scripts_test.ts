/**
 * Script tests: a file has a cluster's objects, commands, and what each command prints.
 *
 * A script is a text of sections, as Go's txtar: `-- NAME --` begins a file, and `-- $ signpost … --` a command
 * with its expected output, of which ` | grep PATTERN` keeps the lines that match. A file's name on a command line
 * means the file of the script. The node is `node-1`, and no program runs, so commands say that the kernel was not
 * read. `deno test -A tests/scripts -- --update` writes the outputs again.
 */
import { assertEquals } from "@std/assert";
import { ProgramMissingError } from "../../lib/model/ports/ports.ts";
import { SystemClock } from "../../lib/system/clock.ts";
import { NOW, runLine } from "../cli/runtime.ts";

const FOLDER = new URL("./", import.meta.url);
const IS_UPDATE = Deno.args.includes("--update");
const PROMPT = "$ signpost ";

/** A part of a script: a file, or a command and its output. */
interface Section {
  readonly name: string;
  readonly text: string;
}

/** Splits a script into the comment before the first section, and the sections. */
function parse(script: string): { readonly comment: string; readonly sections: Section[] } {
  const [comment = "", ...parts] = script.split(/^-- (.+) --\n/m);
  const sections: Section[] = [];
  for (let at = 0; at < parts.length; at += 2) {
    sections.push({ name: parts[at] ?? "", text: parts[at + 1] ?? "" });
  }
  return { comment, sections };
}

/** Runs a command in a folder that has the files of the script. */
async function run(line: string, folder: string, files: readonly Section[]): Promise<string> {
  const [command = "", filter] = line.split(" | grep ");
  const inFolder = (word: string) =>
    files.some(({ name }) => name === word) ? `${folder}/${word}` : word;
  const missing = ([program]: readonly string[]) =>
    Promise.reject(new ProgramMissingError(program ?? ""));
  const { code, printed, complaints } = await runLine(command.split(" ").map(inFolder), {
    clock: Object.assign(new SystemClock(), { now: () => NOW }),
    runner: { run: missing },
    hostname: () => "node-1",
    addresses: () => ["127.0.0.1", "::1", "192.168.0.2"],
    interfaces: () => [{ name: "eth0", address: "192.168.0.2" }],
    askDaemon: () => Promise.reject(new Deno.errors.NotFound("no daemon")),
  });
  const lines = [...printed, ...complaints.map((line) => `${line}\n`)];
  if (code !== 0) lines.push(`exit ${code}\n`);
  const output = lines.join("").replaceAll(`${folder}/`, "");
  if (filter === undefined) return output;
  const wanted = new RegExp(filter);
  return output.split("\n").filter((each) => wanted.test(each)).map((each) => `${each}\n`).join("");
}

for (const { name } of [...Deno.readDirSync(FOLDER)].sort((a, b) => a.name < b.name ? -1 : 1)) {
  if (!name.endsWith(".txt")) continue;
  const path = new URL(name, FOLDER);
  const script = Deno.readTextFileSync(path);
  const { comment, sections } = parse(script);
  const [title = name] = comment.split("\n");
  Deno.test(`${name}: ${title.replace(/^# /, "")}`, async () => {
    const folder = await Deno.makeTempDir();
    try {
      const files = sections.filter(({ name }) => !name.startsWith(PROMPT));
      for (const { name, text } of files) await Deno.writeTextFile(`${folder}/${name}`, text);
      let actual = comment;
      for (const { name, text } of sections) {
        const output = name.startsWith(PROMPT)
          ? await run(name.slice(PROMPT.length), folder, files)
          : text;
        actual += `-- ${name} --\n${output}`;
      }
      if (IS_UPDATE) await Deno.writeTextFile(path, actual);
      else assertEquals(actual, script);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
}
