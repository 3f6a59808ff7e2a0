/** Runs commands of signpost beside the work of a test, until Ctrl-C. */
import { eventually } from "../support/eventually.ts";
import type { Network } from "../support/network.ts";
import { signpostCommand } from "../support/signpost.ts";

type Work = (printed: () => string) => Promise<void>;

/** The result of a command that Ctrl-C has ended. */
interface Interrupted {
  readonly code: number;
  readonly stdout: string;
}

/** Runs a command beside some work, and gives what it printed until Ctrl-C. */
export async function untilInterrupted(
  network: Network,
  words: readonly string[],
  work: Work,
): Promise<Interrupted> {
  const child = new Deno.Command("ip", {
    args: ["netns", "exec", network.namespaceOf("node"), ...signpostCommand(), ...words],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let stdout = "";
  const reading = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) stdout += text;
  })();
  await work(() => stdout);
  child.kill("SIGINT");
  const { code } = await child.status;
  await reading;
  return { code, stdout };
}

/** Runs `signpost observe` beside some work. */
export function observing(
  network: Network,
  args: readonly string[],
  work: Work,
): Promise<Interrupted> {
  return untilInterrupted(network, ["observe", ...args], async (printed) => {
    await eventually(
      "a subscription to events",
      async () => / 0*5 /.test(await network.run("node", ["cat", "/proc/net/netlink"])),
    );
    await work(printed);
  });
}
