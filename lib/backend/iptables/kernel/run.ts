/**
 * Runs the iptables programs and classifies their errors.
 * @module
 */
import {
  ApplyError,
  type ApplyFailure,
  rethrowAsApplyError,
} from "../../../model/kernel/dataplane.ts";
import {
  type ProcessResult,
  type ProcessRunner,
  ProgramMissingError,
} from "../../../model/ports/ports.ts";
import { oneLine } from "../../../model/values/text.ts";

/**
 * Returns the program's result, or `undefined` if it is not installed.
 * @throws {ApplyError} if it could not run to its end
 */
export async function runIfInstalled(
  runner: ProcessRunner,
  argv: readonly [string, ...string[]],
): Promise<ProcessResult | undefined> {
  try {
    return await runner.run(argv);
  } catch (error) {
    if (error instanceof ProgramMissingError) return undefined;
    return rethrowAsApplyError(error);
  }
}

/** Seconds to wait for the lock of all iptables-legacy programs. */
export const LOCK_WAIT_SECONDS = 5;

const PATTERNS: readonly (readonly [RegExp, ApplyFailure])[] = [
  [/holding the xtables lock|Resource temporarily unavailable|Device or resource busy$/m, "busy"],
  [/Permission denied|Operation not permitted|must be root/i, "not-permitted"],
  [
    /Table does not exist|can't initialize ip6?tables table|Address family not supported/i,
    "not-supported",
  ],
  [/Couldn't load (?:match|target)|missing kernel module|unknown option/i, "not-supported"],
  [/Extension .* not supported|RULE_\w+ failed \((?:No such file|Operation not)/i, "not-supported"],
  [/does not exist|No chain\/target\/match|does a matching rule exist/i, "conflict"],
  [/File exists|Chain already exists|CHAIN_\w+ failed|CHAIN_DEL|Too many links/i, "conflict"],
  [/^ip6?tables(?:-legacy)?-restore: line \d+ failed\s*$/m, "conflict"],
];

const ADVICE: Readonly<Record<ApplyFailure, string>> = {
  "program-missing": "install iptables",
  "not-permitted": "run as root, or with CAP_NET_ADMIN and CAP_NET_RAW",
  "owned": "end the program that owns the table",
  "not-supported":
    "the kernel or this iptables lacks what the rule needs: load the modules with modprobe on the " +
    "node itself (systemd/signpost-modules.conf names them; iptables-legacy needs ip_tables, " +
    "iptable_nat, iptable_filter, for IPv6 ip6_tables, ip6table_nat, ip6table_filter), or install a " +
    "newer iptables",
  "conflict": "another program has changed the rules",
  "unreadable": "install a newer iptables",
  "program-failed": "trying again later",
  "busy": `another program held the iptables lock for ${LOCK_WAIT_SECONDS} s`,
  "unknown": "see iptables-restore(8)",
};

/**
 * Returns the error of a program that failed.
 * @param program its name
 * @param input its input, from which the faulty line is quoted
 */
export function failureOf(program: string, result: ProcessResult, input = ""): ApplyError {
  const said = `${result.stderr}\n${result.stdout}`;
  const failure = PATTERNS.find(([pattern]) => pattern.test(said))?.[1] ?? "unknown";
  const line = faultyLine(said, input);
  const reason = joinLines(result.stderr) || `exit code ${result.code}`;
  const place = line === undefined ? "" : ` (line: ${joinLines(line)})`;
  return new ApplyError(failure, `${program}: ${reason}${place}; ${ADVICE[failure]}`);
}

/** Returns the error of a program that could not be run. */
export function missingProgram(program: string, cause: unknown): ApplyError {
  const message = `cannot run ${program}: ${ADVICE["program-missing"]}`;
  return new ApplyError("program-missing", message, { cause });
}

/** Returns the faulty line. A failed COMMIT does not name the rule. */
function faultyLine(said: string, input: string): string | undefined {
  const number = /line:? (\d+)/.exec(said)?.[1];
  const line = number === undefined ? undefined : input.split("\n")[Number(number) - 1];
  return line === "COMMIT" ? undefined : line;
}

const LONGEST_QUOTE = 400;

function joinLines(text: string): string {
  const line = text.split("\n").map((part) => part.trim())
    .filter((part) => part !== "" && !/^(?:#|Try `)/.test(part)).join(", ");
  return oneLine(line, LONGEST_QUOTE);
}
