/** A world for commands: everything real but time, the terminal and what is printed. */
import type { Runtime } from "../../lib/model/ports/runtime.ts";
import { runCommand } from "../../lib/cli/command.ts";
import { systemRuntime } from "../../lib/system/runtime.ts";
import { type QueryContext, terseLog } from "../../lib/cli/context.ts";
import type { OutputFormat } from "../../lib/config/command.ts";
import type { Logger } from "../../lib/model/ports/ports.ts";
import { configuration, DEFAULTS } from "../support/configuration.ts";

/** The wall-clock time of all tests. */
export const NOW = Date.parse("2026-01-02T03:04:05.000Z");

/** The output of a command, and the world that it ran in. */
export interface World {
  readonly runtime: Runtime;
  readonly logger: Logger;
  /** Each print by itself. */
  readonly printed: string[];
  /** Lines on the standard error. */
  readonly complaints: string[];
}

/**
 * Makes a world.
 *
 * @param changes what is other than usual; sleeping takes no time
 */
export function world(changes: Partial<Runtime> = {}): World {
  const printed: string[] = [];
  const complaints: string[] = [];
  let elapsed = 0;
  const runtime: Runtime = {
    ...systemRuntime(),
    clock: {
      now: () => NOW,
      monotonic: () => elapsed,
      sleep: (milliseconds) => {
        elapsed += milliseconds;
        return Promise.resolve();
      },
    },
    environment: () => undefined,
    isTerminal: () => false,
    terminalSize: () => ({ columns: 80, rows: 24 }),
    print: (text) => {
      printed.push(String(text));
      return Promise.resolve();
    },
    complain: (line) => complaints.push(line),
    ...changes,
  };
  return { runtime, logger: terseLog(runtime, { verbosity: 0 }), printed, complaints };
}

/** Runs a command line of signpost. */
export async function runLine(
  argv: readonly string[],
  changes: Partial<Runtime> = {},
  signal: AbortSignal = new AbortController().signal,
): Promise<World & { readonly code: number }> {
  const it = world(changes);
  const code = await runCommand(argv, {
    runtime: it.runtime,
    signal,
    systemd: { notifySocket: undefined, watchdog: undefined },
    reload: () => {},
  });
  return { ...it, code };
}

/** Writes objects into a file, and removes it after its use. */
export async function withManifest<T>(
  items: readonly object[],
  use: (path: string) => Promise<T>,
): Promise<T> {
  const path = await Deno.makeTempFile({ prefix: "signpost-objects-", suffix: ".json" });
  try {
    await Deno.writeTextFile(path, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
    return await use(path);
  } finally {
    await Deno.remove(path);
  }
}

/** The keys of a person who types nothing. */
export async function* noKeys(): AsyncGenerator<string, void> {
  yield* [];
  await new Promise(() => {});
}

/** Sets how a command that asks the daemon runs. */
export interface AskRunOptions {
  readonly ask: Runtime["askDaemon"];
  readonly output?: OutputFormat;
  readonly namespace?: string;
  readonly runtime?: Partial<Runtime>;
  readonly signal?: AbortSignal;
}

/** Runs a command that asks the daemon at `/run/s.sock`. */
export async function runAsking(
  { ask, output = "table", namespace = "", runtime, signal }: AskRunOptions,
  command: (
    query: { readonly output: OutputFormat; readonly namespace: string },
    context: QueryContext,
  ) => Promise<number>,
): Promise<World & { readonly code: number }> {
  const it = world({ askDaemon: ask, ...runtime });
  const code = await command({ output, namespace }, {
    ...it,
    configuration: configuration({ signpost: { ...DEFAULTS.signpost, socket: "/run/s.sock" } }),
    signal: signal ?? new AbortController().signal,
    nodeName: "node-1",
  });
  return { ...it, code };
}
