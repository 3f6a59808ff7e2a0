/**
 * From the words and flags of a command line to the command that they ask for.
 *
 * @module
 */
import {
  type Argument,
  type CompletionsRequest,
  type ExplainTarget,
  readCompletions,
  readExplainTarget,
} from "./arguments.ts";
import type { FlagResult } from "./flags.ts";
import { sectionOf } from "../settings/table.ts";

/** How a report is printed. */
export type OutputFormat = "table" | "json" | "yaml";

/** Who sends a packet. */
export type Sender = "pod" | "node" | "external";

/** What is to be done. */
export type Command =
  | {
    readonly name: "run";
    /** Print the script for the present state and exit. */
    readonly once: boolean;
    /** What `once` prints. */
    readonly output: "script" | "json";
  }
  /** Only make the kernel settings that need full root. */
  | { readonly name: "init-only" }
  /** Only write what flags and file say, with defaults, into a file. */
  | { readonly name: "write-config"; readonly path: string }
  | { readonly name: "check"; readonly output: OutputFormat }
  | {
    readonly name: "cleanup";
    /** Remove kube-proxy's rules too. */
    readonly kubeProxy: boolean;
    /** Only print what would be removed. */
    readonly dryRun: boolean;
    /** Remove the rules beside a running daemon, too. */
    readonly force: boolean;
  }
  | {
    readonly name: "explain";
    readonly target: ExplainTarget;
    /** `undefined`: to be told from the source address. */
    readonly from: Sender | undefined;
    /** Send a packet and show the rules that it meets. */
    readonly trace: boolean;
    /** Show tracked connections too. */
    readonly conntrack: boolean;
    readonly timeout: number;
    readonly output: OutputFormat;
  }
  | {
    readonly name: "verify";
    /** Ask the daemon for a full sync where something differs. */
    readonly fix: boolean;
    readonly timeout: number;
    readonly output: OutputFormat;
  }
  | {
    readonly name: "status";
    /** Show it again and again. */
    readonly watch: boolean;
    readonly output: OutputFormat;
  }
  | {
    readonly name: "top";
    /** Print one table, not a picture that follows. */
    readonly once: boolean;
    readonly output: OutputFormat;
  }
  | {
    readonly name: "diff";
    /** The objects that might be applied: files, folders or `-`. */
    readonly manifests: readonly string[];
    readonly timeout: number;
    readonly output: OutputFormat;
  }
  | { readonly name: "completions" } & CompletionsRequest
  | { readonly name: "version" }
  | { readonly name: "licenses" };

/** The command, or one line for each thing that is wrong with its words. */
export type CommandResult =
  | { readonly type: "command"; readonly command: Command }
  | { readonly type: "errors"; readonly errors: readonly string[] };

/** Milliseconds that commands wait for objects. */
const OBJECTS_TIMEOUT = 10_000;

/** Works out what a command line asks for. */
export function readCommand(flags: FlagResult): CommandResult {
  const { command: name, words, settings } = flags;
  const { once, output, kubeProxy, dryRun, force, ...given } = sectionOf(settings, "command");
  const report = { output: given.report || "table" } as const;
  const { timeout = OBJECTS_TIMEOUT } = given;
  switch (name) {
    case "run":
      // In kube-proxy's order.
      if (given.writeConfigTo) return command({ name: "write-config", path: given.writeConfigTo });
      if (given.initOnly) return command({ name: "init-only" });
      return command({ name, once: once ?? false, output: output || "script" });
    case "check":
      return command({ name, ...report });
    case "cleanup":
      return command({
        name,
        kubeProxy: kubeProxy ?? false,
        dryRun: dryRun ?? false,
        force: force ?? false,
      });
    case "explain":
      return readExplain(flags);
    case "verify":
      return command({ name, fix: given.fix ?? false, timeout, ...report });
    case "status":
      return command({ name, watch: given.watch ?? false, ...report });
    case "top":
      return command({ name, once: given.look ?? false, ...report });
    case "diff": {
      const manifests = [...settings["signpost.manifests"] ?? [], ...words];
      return manifests.length === 0
        ? errors("diff: needs the objects that might be applied: --manifests FILE")
        : command({ name, manifests, timeout, ...report });
    }
    case "completions":
      return map(readCompletions(words), (request) => ({ name, ...request }), name);
    case "version":
    case "licenses":
      return command({ name });
  }
}

function readExplain({ words, settings }: FlagResult): CommandResult {
  const { from, trace = false, conntrack = false, timeout = OBJECTS_TIMEOUT, report } = sectionOf(
    settings,
    "command",
  );
  const argument = readExplainTarget(words);
  if (argument.type === "value") {
    const { value: target } = argument;
    const wrong = [
      ...trace && target.type === "service" ? ["--trace: is only for packets"] : [],
      ...from && target.type === "service" ? ["--from: is only for packets"] : [],
      ...!from && target.type === "packet" && target.source === undefined
        ? ["explain: needs the packet's source: an address before to, or --from"]
        : [],
    ];
    if (wrong.length > 0) return errors(...wrong);
  }
  return map(argument, (target) => ({
    name: "explain",
    target,
    from: from || undefined,
    trace,
    conntrack,
    timeout,
    output: report || "table",
  }), "explain");
}

function map<T>(
  argument: Argument<T>,
  toCommand: (value: T) => Command,
  name: string,
): CommandResult {
  return argument.type === "value"
    ? command(toCommand(argument.value))
    : errors(`${name}: ${argument.message}`);
}

function command(command: Command): CommandResult {
  return { type: "command", command };
}

function errors(...errors: readonly string[]): CommandResult {
  return { type: "errors", errors };
}
