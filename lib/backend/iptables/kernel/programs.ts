/** Runs the iptables programs. Programs of iptables-nft and iptables-legacy do not see each other's rules. */
import { FAMILIES, type Family } from "../../../model/values/address.ts";
import { ApplyError, type ApplyFailure, runIfInstalled } from "../../../model/kernel/dataplane.ts";
import type { ProcessResult, ProcessRunner } from "../../../model/ports/ports.ts";
import { readSysctl } from "../../sysctl.ts";
import { programName } from "../script/names.ts";
import { oneLine } from "../../../model/values/text.ts";

/** `-nft` or `-legacy`; `""` for the system's plain `iptables`. */
export type Variant = "" | "-nft" | "-legacy";

/** Selects the programs of one family and variant. */
export interface FamilyVariant {
  readonly family: Family;
  readonly variant: Variant;
}

async function run(
  runner: ProcessRunner,
  argv: readonly [string, ...string[]],
  stdin?: string,
): Promise<ProcessResult> {
  const result = await runIfInstalled(runner, argv, stdin);
  if (result) return result;
  const message = `cannot run ${argv[0]}: ${ADVICE["program-missing"]}`;
  throw new ApplyError("program-missing", message);
}

/** Returns a save program's output. Without `-t`, iptables-legacy does not load kernel modules. @throws {ApplyError} */
export async function save(
  runner: ProcessRunner,
  { family, variant }: FamilyVariant,
): Promise<string> {
  const program = programName(family, "-save", variant);
  const result = await run(runner, [program]);
  if (result.code !== 0) throw failureOf(program, result);
  return result.stdout;
}

/** Gives an input to a restore program. @throws {ApplyError} if it failed */
export async function restore(
  runner: ProcessRunner,
  { family, variant }: FamilyVariant,
  text: string,
): Promise<void> {
  const program = programName(family, "-restore", variant);
  const result = await run(runner, [program, ...WAIT, "--noflush"], text);
  if (result.code !== 0) throw failureOf(program, result, text);
}

/** Lists a chain, or returns the failure. @throws {ApplyError} if the program could not run to its end */
export async function listChain(
  runner: ProcessRunner,
  { family, variant, table, chain }: FamilyVariant & {
    readonly table: string;
    readonly chain: string;
  },
  ...options: readonly string[]
): Promise<string | ApplyError> {
  const program = programName(family, "", variant);
  const result = await run(runner, [program, ...WAIT, "-t", table, ...options, "-S", chain]);
  return result.code === 0 ? result.stdout : failureOf(program, result);
}

/** Seconds to wait for the lock of all iptables-legacy programs. */
const LOCK_WAIT_SECONDS = 5;
const WAIT = ["-w", `${LOCK_WAIT_SECONDS}`] as const;

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

/** Returns the error of a failed program. @param input its input, from which the faulty line is quoted */
export function failureOf(program: string, result: ProcessResult, input = ""): ApplyError {
  const said = `${result.stderr}\n${result.stdout}`;
  const failure = PATTERNS.find(([pattern]) => pattern.test(said))?.[1] ?? "unknown";
  const line = faultyLine(said, input);
  const reason = joinLines(result.stderr) || `exit code ${result.code}`;
  const place = line === undefined ? "" : ` (line: ${joinLines(line)})`;
  return new ApplyError(failure, `${program}: ${reason}${place}; ${ADVICE[failure]}`);
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

export interface Iptables {
  readonly variant: Variant;
  /** The reason for this variant, for the log. */
  readonly reason: string;
  /** True if both variants hold rules. */
  readonly mixed: boolean;
  /** Wanted families that work, IPv4 first, at least one. */
  readonly families: readonly Family[];
  /** The reason why a family does not work, for the log. */
  readonly missing: ReadonlyMap<Family, string>;
  /** True if the node accepts TCP packets out of window. */
  readonly tcpBeLiberal: boolean;
  readonly version: string;
}

/** Finds the variant, and the wanted families that work. @throws {ApplyError} if all families fail */
export async function findIptables(
  runner: ProcessRunner,
  wanted: readonly Family[] = FAMILIES,
): Promise<Iptables> {
  const choice = await findVariant(runner);
  const failures = new Map<Family, ApplyError>();
  for (const family of wanted) {
    const failure = await checkFamily(runner, { family, variant: choice.variant });
    if (failure) failures.set(family, failure);
  }
  const families = wanted.filter((family) => !failures.has(family));
  const [first] = families;
  if (first === undefined) throw failures.values().next().value;
  const program = programName(first, "", choice.variant);
  const version = await runIfInstalled(runner, [program, "--version"]);
  return {
    ...choice,
    families,
    missing: new Map([...failures].map(([family, { message }]) => [family, message])),
    tcpBeLiberal: await isTcpLiberal(runner),
    version: version?.stdout.trim() ?? "",
  };
}

/** Returns true if the node accepts TCP packets out of window. Administrators also set this sysctl. */
export async function isTcpLiberal(runner: ProcessRunner): Promise<boolean> {
  const name = "net.netfilter.nf_conntrack_tcp_be_liberal";
  return /^[1-9]/.test(await readSysctl(runner, name).catch(() => ""));
}

const KUBELET_HINTS = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"] as const;

type Choice = Pick<Iptables, "variant" | "reason" | "mixed">;

/**
 * Chooses a variant like the iptables wrappers of Kubernetes' images: by kubelet's hint (KEP-3178), by the number of
 * rules, or as the system's `iptables`.
 * @param rules the output of each variant's save programs, for both families
 */
export function chooseVariant(rules: { readonly nft: string; readonly legacy: string }): Choice {
  const count = { nft: countRules(rules.nft), legacy: countRules(rules.legacy) };
  const mixed = count.nft > 0 && count.legacy > 0;
  for (const name of ["nft", "legacy"] as const) {
    // The text holds both families, so a hint in either counts.
    const hint = KUBELET_HINTS.find((chain) => rules[name].includes(`\n:${chain} - `));
    if (hint) return { variant: `-${name}`, reason: `kubelet's chain ${hint} is there`, mixed };
  }
  const counts = `${count.nft} rules in iptables-nft, ${count.legacy} in iptables-legacy`;
  if (count.nft === count.legacy) return { variant: "", reason: counts, mixed };
  return { variant: count.nft > count.legacy ? "-nft" : "-legacy", reason: counts, mixed };
}

function countRules(saved: string): number {
  return saved.match(/^-A /gm)?.length ?? 0;
}

async function findVariant(runner: ProcessRunner): Promise<Choice> {
  const nft = await savedBy(runner, "-nft");
  const legacy = await savedBy(runner, "-legacy");
  if (nft === undefined || legacy === undefined) {
    // With the full name, our own rules do not count as another variant's.
    const variant = nft !== undefined ? "-nft" : legacy !== undefined ? "-legacy" : "";
    return { variant, reason: "iptables has one variant here", mixed: false };
  }
  const choice = chooseVariant({ nft, legacy });
  if (choice.variant !== "") return choice;
  const plain = await runIfInstalled(runner, ["iptables", "--version"]);
  return { ...choice, variant: plain?.stdout.includes("legacy") ? "-legacy" : "-nft" };
}

/** Returns a variant's rules of both families, or `undefined` if it is not installed. */
async function savedBy(runner: ProcessRunner, variant: Variant): Promise<string | undefined> {
  let saved: string | undefined;
  for (const family of FAMILIES) {
    const result = await runIfInstalled(runner, [programName(family, "-save", variant)]);
    if (result) saved = (saved ?? "") + (result.code === 0 ? result.stdout : "");
  }
  return saved;
}

/** Looks for the chain POSTROUTING of table `nat`, as kube-proxy does. @returns the reason why the family does not work */
async function checkFamily(
  runner: ProcessRunner,
  place: FamilyVariant,
): Promise<ApplyError | undefined> {
  try {
    const listed = await listChain(runner, { ...place, table: "nat", chain: "POSTROUTING" });
    // A busy lock does not show if the family works.
    return listed instanceof ApplyError && listed.failure !== "busy" ? listed : undefined;
  } catch (error) {
    // A retry may succeed, so the family must not be dropped.
    if (!(error instanceof ApplyError) || error.failure === "program-failed") throw error;
    return error;
  }
}
