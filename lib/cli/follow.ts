/** Shows reports until a signal aborts: one below the other or, in a terminal, each over the last one. */
import type { Runtime } from "../model/ports/runtime.ts";
import { messageIfFatal } from "../model/values/errors.ts";
import { plain } from "../model/values/text.ts";

export interface FollowOptions<Report> {
  readonly render: (report: Report) => string;
  /** @param offset the number of lines above the screen; `undefined` for the first report */
  readonly ask: (offset?: number) => Promise<Report>;
  /** Returns the text to show for an error; `""` to show nothing. @default the error */
  readonly problem?: (message: string) => string;
  /** Returns the milliseconds between two reports. */
  readonly pause: (first: Report) => number;
  /** True to draw each report over the last one, until q is typed. */
  readonly isLive: boolean;
  readonly layout: Layout;
  /** Handles a typed key. @returns false if it ignored the key @default ignores all */
  readonly takeKey?: (key: string) => boolean;
  readonly runtime: Pick<Runtime, "clock" | "typedKeys" | "print" | "terminalSize">;
  readonly signal: AbortSignal;
}

interface Layout {
  /** The number of lines at the top that do not scroll. */
  readonly fixed: number;
  /** True to wrap long lines, false to cut them. */
  readonly wraps: boolean;
  /** The text for the key ?. */
  readonly help: string;
}

/** Shows reports until the signal aborts. If the daemon stops, it waits for a new one. */
export async function follow<Report>(
  first: Report,
  options: FollowOptions<Report>,
): Promise<void> {
  const { render, ask, problem = (message) => message, isLive, takeKey, runtime } = options;
  const { layout, pause, signal } = options;
  const end = new AbortController();
  const either = AbortSignal.any([signal, end.signal]);
  let shown = () => render(first);
  let offset = 0;
  let isHelp = false;
  const next = () =>
    ask(offset).then((report) => () => render(report), (error) => {
      const text = problem(`${plain(messageIfFatal(error))}\n`);
      return () => text;
    });
  const draw = async () => {
    const size = runtime.terminalSize();
    const page = isHelp
      ? pageOf(layout.help, { ...layout, ...size, offset: 0 })
      : pageOf(shown(), { ...layout, ...size, offset });
    if (!isHelp) offset = page.offset;
    await runtime.print(page.screen);
  };
  const showAll = async () => {
    for (; !either.aborted; shown = await next()) {
      await (isLive ? draw() : runtime.print(shown()));
      await runtime.clock.sleep(pause(first), either);
      if (either.aborted) return;
    }
  };
  if (!isLive) return await showAll();
  const readKeys = async () => {
    for await (const key of runtime.typedKeys(either)) {
      if (either.aborted) return;
      if (!takeKey?.(key)) {
        if (key === "q" || key === "Q") return;
        isHelp = key === "?" && !isHelp;
        offset += (SCROLL[key] ?? 0) *
          (key.endsWith("~") ? Math.max(1, runtime.terminalSize().rows - 6) : 1);
      }
      await draw();
    }
  };
  const stop = () => end.abort();
  // Switches to the alternate screen without a cursor. The end restores the terminal.
  await runtime.print("\x1b[?1049h\x1b[?25l");
  // Reading fails if the terminal hangs up.
  void readKeys().then(stop, stop);
  try {
    await showAll();
  } finally {
    stop();
    await runtime.print("\x1b[?25h\x1b[?1049l");
  }
}

/** The keys that scroll, as terminals send them: ↑ and ↓ by lines, PgUp and PgDn by pages. */
const SCROLL: Readonly<Record<string, number>> = {
  "\x1b[A": -1,
  "\x1b[B": 1,
  "\x1b[5~": -1,
  "\x1b[6~": 1,
};

/** The part of a help text about scrolling. */
export const SCROLL_HELP =
  "  ↑ ↓ PgUp PgDn  scroll\n  ?              show or hide this help\n  q              end\n";

/** Draws a part of a text over the screen, line by line, to avoid flicker. */
function pageOf(
  text: string,
  { columns, rows, fixed, wraps, offset }: Omit<Layout, "help"> & {
    readonly columns: number;
    readonly rows: number;
    readonly offset: number;
  },
): { readonly screen: string; /** At most the number of lines. */ readonly offset: number } {
  const all = text.trimEnd().split("\n")
    .flatMap((line) => wraps ? wrapVisible(line, columns) : [line]);
  const room = Math.max(0, rows - 3);
  const head = all.slice(0, fixed < room ? fixed : 0);
  const body = all.slice(head.length);
  const space = room - head.length;
  const from = Math.max(0, Math.min(offset, body.length - space));
  const part = body.slice(from, from + space);
  const place = part.length === body.length ? "" : `; lines ${from + 1} to ${from + part.length}`;
  const lines = [...head, ...part, "", `q ends, ? lists the keys${place}`].slice(0, rows - 1);
  // The end of a line ends its colour.
  const drawn = lines.map((line) => `${cut(line, columns)}\x1b[m\x1b[K\n`).join("");
  return { screen: `\x1b[H${drawn}\x1b[J`, offset: from };
}

/** Matches a sequence that changes colours. Its width is 0. */
const SEQUENCE = /\p{Cc}\[\d*m/gu;

function visibleWidth(line: string): number {
  return line.replace(SEQUENCE, "").length;
}

/** Cuts a line to `columns`, and marks the cut. */
function cut(line: string, columns: number): string {
  if (visibleWidth(line) <= columns) return line;
  let left = columns - 1;
  const kept = line.replace(
    /(\p{Cc}\[\d*m)|./gu,
    (each, sequence) => sequence || left-- > 0 ? each : "",
  );
  return `${kept}…`;
}

/** Breaks a line between words. All parts have its indentation. */
function wrapVisible(line: string, columns: number): string[] {
  const indent = /^ */.exec(line)?.[0] ?? "";
  const parts = wrap(line.slice(indent.length), columns - indent.length, visibleWidth);
  return parts.map((part) => indent + part);
}

/** Breaks a text between words. @param widthOf measures a text @default its length */
export function wrap(
  text: string,
  room: number,
  widthOf = ({ length }: string) => length,
): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && widthOf(line) + 1 + widthOf(word) > room) {
      lines.push(line);
      line = word;
    } else line += line === "" ? word : ` ${word}`;
  }
  return [...lines, line];
}
