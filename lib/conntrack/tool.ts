/**
 * The program `conntrack` (conntrack-tools): its arguments and its answers.
 *
 * @module
 */
import type { Family } from "../model/values/address.ts";
import {
  type ProcessResult,
  type ProcessRunner,
  ProgramFailedError,
} from "../model/ports/ports.ts";
import { type ConntrackEntry, parseEntries } from "./parse.ts";
import { MOST_SUSPECTS, type Suspect } from "./stale.ts";
import { oneLine } from "../model/values/text.ts";

/** Which UDP entries of a family to list. What is left out matches all. */
export interface ListFilter {
  readonly address?: string;
  readonly port?: number;
}

/**
 * Entries that are deleted together: those with the same destination and the same source of the
 * answers. Whether an entry is stale depends on nothing else, so that all that match are.
 */
export interface Deletion {
  readonly family: Family;
  readonly address: string;
  readonly port: number;
  readonly replyAddress: string;
  readonly replyPort: number;
  /** Only entries of the default conntrack zone. */
  readonly onlyDefaultZone: boolean;
}

/** `conntrack` was run, and failed. The message is one line. */
export class ConntrackError extends Error {
  override name = "ConntrackError";
}

/** Each listing walks all of the kernel's table: from this many ports on, one without a filter is cheaper. */
const MAX_LISTINGS = 3;

/** Returns the listings that show every entry to the given frontends, each as narrow as the tool allows. */
export function listFilters(suspects: ReadonlyMap<string, Suspect>): ListFilter[] {
  const byPort = Map.groupBy(suspects.values(), ({ port }) => port);
  if (suspects.size === MOST_SUSPECTS || byPort.size > MAX_LISTINGS) return [{}];
  return [...byPort].map(([port, [first, ...others]]) => {
    const { address } = first ?? {};
    const isOnly = others.every((other) => other.address === address);
    return isOnly && address !== undefined ? { address, port } : { port };
  });
}

/** Gathers stale entries to deletions, those of most entries first. */
export function deletionsOf(entries: Iterable<ConntrackEntry>): Deletion[] {
  const groups = new Map<string, { readonly deletion: Deletion; count: number }>();
  for (const { family, original, reply } of entries) {
    const deletion = {
      family,
      address: original.dst,
      port: original.dport,
      replyAddress: reply.src,
      replyPort: reply.sport,
      onlyDefaultZone: original.dst === reply.src && original.dport === reply.sport,
    };
    const key = deletionArguments(deletion).join(" ");
    const group = groups.get(key) ?? { deletion, count: 0 };
    group.count++;
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.count - a.count).map(({ deletion }) => deletion);
}

/** The arguments of `conntrack` for a deletion, `-D` first; addresses and numbers only. */
export function deletionArguments(deletion: Deletion): string[] {
  const { family, address, port, replyAddress, replyPort, onlyDefaultZone } = deletion;
  return [
    "-D",
    ...protocolArguments(family),
    "--orig-dst",
    address,
    "--orig-port-dst",
    String(port),
    "--reply-src",
    replyAddress,
    "--reply-port-src",
    String(replyPort),
    ...(onlyDefaultZone ? ["-w", "0"] : []),
  ];
}

function protocolArguments(family: Family): string[] {
  return ["-f", `ipv${family}`, "-p", "udp"];
}

/** Runs `conntrack`. Both verbs throw `ConntrackError`, and `ProgramMissingError` where there is none. */
export class ConntrackTool {
  /** Versions before 1.4.7 know no `--load-file`. */
  #takesBatches = true;

  /** @param runner runs `conntrack`, as root or with CAP_NET_ADMIN */
  constructor(private readonly runner: ProcessRunner) {}

  /** Lists UDP entries of a family. */
  async list(family: Family, { address, port }: ListFilter): Promise<Iterable<ConntrackEntry>> {
    const result = await this.#run([
      "-L",
      ...protocolArguments(family),
      ...(address === undefined ? [] : ["--orig-dst", address]),
      ...(port === undefined ? [] : ["--orig-port-dst", String(port)]),
    ]);
    if (result.code !== 0) throw failure("list the connections that the kernel tracks", result);
    return parseEntries(result.stdout);
  }

  /**
   * Deletes entries, with one process if the tool can.
   *
   * @returns how many entries are gone
   */
  async delete(deletions: readonly Deletion[]): Promise<number> {
    if (this.#takesBatches && deletions.length > 1) {
      const lines = deletions.map((deletion) => `${deletionArguments(deletion).join(" ")}\n`);
      const result = await this.#run(["--load-file", "-"], lines.join(""));
      if (result.code === 0) return countEntries(result);
      // Whatever it was, the deletions one by one tell; what is gone already is no error to them.
      this.#takesBatches = false;
    }
    let deleted = 0;
    for (const deletion of deletions) deleted += await this.#deleteOne(deletion);
    return deleted;
  }

  async #deleteOne(deletion: Deletion): Promise<number> {
    const result = await this.#run(deletionArguments(deletion));
    const isNothing = result.code === 1 && /\b0 flow entries have been deleted/.test(result.stderr);
    if (result.code !== 0 && !isNothing) throw failure("delete stale UDP connections", result);
    return countEntries(result);
  }

  async #run(args: readonly string[], stdin?: string): Promise<ProcessResult> {
    try {
      return await this.runner.run(["conntrack", ...args], stdin);
    } catch (error) {
      if (!(error instanceof ProgramFailedError)) throw error;
      throw new ConntrackError(`stale UDP connections are not deleted: ${error.message}`, {
        cause: error,
      });
    }
  }
}

/** `-D` prints each entry that it deleted. */
function countEntries({ stdout }: ProcessResult): number {
  return [...parseEntries(stdout)].length;
}

function failure(action: string, { code, stderr }: ProcessResult): ConntrackError {
  const line = stderr.split("\n").find((each) => each.trim() !== "") ?? "it does not say why";
  return new ConntrackError(`conntrack cannot ${action} (exit ${code}): ${oneLine(line, 200)}`);
}
