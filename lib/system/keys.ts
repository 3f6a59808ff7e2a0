/**
 * Adapter: keys that are typed at the terminal.
 *
 * @module
 */

/**
 * Waits for one of some keys. Meanwhile the terminal shows no keys and gives each one at once; Ctrl-C stays a
 * signal. When the signal aborts, the terminal is as before.
 *
 * @returns resolves when the key is typed; never where the standard input is no terminal
 */
export async function keyTyped(keys: string, signal: AbortSignal): Promise<void> {
  const { stdin } = Deno;
  if (signal.aborted || !stdin.isTerminal()) return await new Promise<void>(() => {});
  const restore = () => stdin.setRaw(false);
  stdin.setRaw(true, { cbreak: true });
  signal.addEventListener("abort", restore, { once: true });
  const typed = new Uint8Array(16);
  for (;;) {
    const count = await stdin.read(typed);
    if (count === null) return await new Promise<void>(() => {});
    const text = new TextDecoder().decode(typed.subarray(0, count));
    if ([...text].some((key) => keys.includes(key))) return;
  }
}
