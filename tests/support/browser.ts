/** A headless browser for one page at a time, without anything of a person's. */
import { run } from "./command.ts";
import { wordsOf } from "./table.ts";

/** The settings of the browser for a page. */
export interface BrowserOptions {
  /** Milliseconds of the page's own time that go by at once before it is looked at. */
  readonly time?: number;
  /** True if the reader wants dark pages; false by default. */
  readonly dark?: boolean;
  /** The window's size. */
  readonly size?: { readonly width: number; readonly height: number };
  /** The network namespace that the browser runs in, by the name that `ip netns` knows. */
  readonly namespace?: string;
}

const FLAGS: readonly string[] = wordsOf(`
  --headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run
  --disable-background-networking --disable-component-update --disable-sync
`);

/** The document as it is once the page has loaded. */
export function renderedDocument(url: string, options: BrowserOptions = {}): Promise<string> {
  return browse(url, ["--dump-dom"], options);
}

/** A picture of the window (PNG). */
export async function screenshot(url: string, options: BrowserOptions = {}): Promise<Uint8Array> {
  const path = await Deno.makeTempFile({ prefix: "signpost-page-", suffix: ".png" });
  try {
    await browse(url, [`--screenshot=${path}`, "--hide-scrollbars"], options);
    return await Deno.readFile(path);
  } finally {
    await Deno.remove(path);
  }
}

async function browse(
  url: string,
  action: readonly string[],
  { time, dark = false, size, namespace }: BrowserOptions,
): Promise<string> {
  const profile = await Deno.makeTempDir({ prefix: "signpost-browser-" });
  try {
    return await run([
      ...namespace === undefined ? [] : ["ip", "netns", "exec", namespace],
      "chromium",
      ...FLAGS,
      `--user-data-dir=${profile}`,
      `--blink-settings=preferredColorScheme=${dark ? 0 : 1}`,
      ...time === undefined ? [] : [`--virtual-time-budget=${time}`],
      ...size === undefined ? [] : [`--window-size=${size.width},${size.height}`],
      ...action,
      url,
    ]);
  } finally {
    await Deno.remove(profile, { recursive: true });
  }
}
