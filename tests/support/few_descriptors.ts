/** Runs a script in a process that may open few files. */

/**
 * @param script a module for Deno, with signpost's import map
 * @param within a program that starts it, `unshare -n` for one
 * @returns what it printed on its two outputs
 */
export async function runWithFewDescriptors(
  script: string,
  within = "",
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const child = new Deno.Command("sh", {
    args: [
      "-c",
      `ulimit -n 100; exec ${within} "$0" run -qA --config ${config} -`,
      Deno.execPath(),
    ],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(script));
  await writer.close();
  const { stdout, stderr } = await child.output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { stdout: text(stdout), stderr: text(stderr) };
}
