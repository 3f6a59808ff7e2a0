/** Runs a script in a process that may open few files. */
import { type CommandResult, execute } from "./command.ts";

/** Begins each script: `sleep`, and `useUp`, which opens files into `held` until no descriptor is free. */
const PRELUDE = `
  // As signpost does; Deno cannot begin with it when no descriptor is free.
  Deno.addSignalListener("SIGTERM", () => {});
  const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));
  const held = [];
  const useUp = () => {
    try { for (;;) held.push(Deno.openSync("/dev/null")); } catch { /* none is left */ }
  };
`;

/**
 * @param script the rest of a module for Deno, with signpost's import map
 * @param within a program that starts it, `unshare -n` for one
 */
export function runWithFewDescriptors(script: string, within = ""): Promise<CommandResult> {
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const shell = `ulimit -n 100; exec ${within} "$0" run -qA --config ${config} --ext=js -`;
  const stdin = `${PRELUDE}${script}\nDeno.exit();\n`;
  return execute(["sh", "-c", shell, Deno.execPath()], { stdin });
}
