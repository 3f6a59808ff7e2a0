/** Runs `signpost observe` beside the connections of a test. */
import { eventually } from "../support/eventually.ts";
import type { Network } from "../support/network.ts";
import { signpostCommand } from "../support/signpost.ts";

/** Runs it beside some work, and gives what it printed until Ctrl-C. */
export async function observing(
  network: Network,
  args: readonly string[],
  work: (printed: () => string) => Promise<void>,
): Promise<{ readonly code: number; readonly stdout: string }> {
  const [program = "", ...rest] = signpostCommand();
  const child = new Deno.Command("ip", {
    args: ["netns", "exec", network.namespaceOf("node"), program, ...rest, "observe", ...args],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let stdout = "";
  const reading = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) stdout += text;
  })();
  await eventually(
    "a subscription to events",
    async () => / 0*5 /.test(await network.run("node", ["cat", "/proc/net/netlink"])),
  );
  await work(() => stdout);
  child.kill("SIGINT");
  const { code } = await child.status;
  await reading;
  return { code, stdout };
}
