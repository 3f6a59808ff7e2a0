/**
 * Finds the iptables variant of this node.
 *
 * Rules of iptables-nft and iptables-legacy do not see each other. A program with the wrong variant breaks the
 * order of rules that others rely on.
 * @module
 */
import { FAMILIES, type Family } from "../../../model/values/address.ts";
import { ApplyError } from "../../../model/kernel/dataplane.ts";
import type { ProcessRunner } from "../../../model/ports/ports.ts";
import type { Abilities } from "../script/fixed_rules.ts";
import { failureOf, LOCK_WAIT_SECONDS, missingProgram, runIfInstalled } from "./run.ts";
import { Sysctl } from "../../sysctl.ts";
import { programName } from "../script/script.ts";

/** `-nft` or `-legacy`; `""` for the system's plain `iptables`. */
export type Variant = "" | "-nft" | "-legacy";

/** The iptables of this node and its abilities. */
export interface Iptables {
  readonly backend: Variant;
  /** The reason for this variant, for the log. */
  readonly reason: string;
  /** True if both variants hold rules. */
  readonly mixed: boolean;
  /** Wanted families that work, IPv4 first, at least one. */
  readonly families: readonly Family[];
  /** The reason why a family does not work, for the log. */
  readonly missing: ReadonlyMap<Family, string>;
  readonly abilities: Abilities;
  /** The output of `iptables --version`. */
  readonly version: string;
}

/**
 * Finds the variant to use, the families that work, and the programs' abilities.
 * @param wanted the families of the node
 * @throws {ApplyError} if iptables works for no family
 */
export async function findIptables(
  runner: ProcessRunner,
  wanted: readonly Family[] = FAMILIES,
): Promise<Iptables> {
  const choice = await chooseBackend(runner);
  const families: Family[] = [];
  const missing = new Map<Family, string>();
  const errors: Error[] = [];
  for (const family of wanted) {
    try {
      await checkFamily(runner, family, choice.backend);
      families.push(family);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      // A retry may succeed. Until then the family must not be dropped.
      if (error instanceof ApplyError && error.failure === "program-failed") throw error;
      missing.set(family, error.message);
      errors.push(error);
    }
  }
  const [first] = families;
  if (first === undefined) throw errors[0];
  const version = await runIfInstalled(runner, [
    programName(first, "", choice.backend),
    "--version",
  ]);
  const text = version?.stdout.trim() ?? "";
  const abilities = {
    ...abilitiesOf(text),
    ...await isTcpLiberal(runner) && { tcpBeLiberal: true },
  };
  return { ...choice, families, missing, abilities, version: text };
}

/** Returns true if the node accepts TCP packets out of window. Administrators also set this sysctl. */
export async function isTcpLiberal(runner: ProcessRunner): Promise<boolean> {
  const name = "net.netfilter.nf_conntrack_tcp_be_liberal";
  const value = await new Sysctl(runner).read(name).catch(() => "");
  return /^[1-9]/.test(value);
}

/** Returns the abilities of a version from the output of `iptables --version`. */
export function abilitiesOf(version: string): Abilities {
  const [, major = "0", minor = "0", patch = "0"] = /v(\d+)\.(\d+)(?:\.(\d+))?/.exec(version) ?? [];
  const number = Number(major) * 1e6 + Number(minor) * 1e3 + Number(patch);
  return { randomFully: number >= 1_006_002 };
}

/** The rules of each variant, as the save programs print them for both families. */
export interface BackendRules {
  readonly nft: string;
  readonly legacy: string;
}

const KUBELET_HINTS = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"] as const;

/**
 * Chooses a variant like the iptables wrappers of Kubernetes' images: the one with kubelet's hint (KEP-3178), else
 * the one with more rules, else the system's `iptables`.
 */
export function backendOf(rules: BackendRules): Pick<Iptables, "backend" | "reason" | "mixed"> {
  const count = { nft: countRules(rules.nft), legacy: countRules(rules.legacy) };
  const mixed = count.nft > 0 && count.legacy > 0;
  for (const name of ["nft", "legacy"] as const) {
    // The text holds both families, so a hint in either counts.
    const hint = KUBELET_HINTS.find((chain) => rules[name].includes(`\n:${chain} - `));
    if (hint) return { backend: `-${name}`, reason: `kubelet's chain ${hint} is there`, mixed };
  }
  const counts = `${count.nft} rules in iptables-nft, ${count.legacy} in iptables-legacy`;
  if (count.nft === count.legacy) return { backend: "", reason: counts, mixed };
  return { backend: count.nft > count.legacy ? "-nft" : "-legacy", reason: counts, mixed };
}

function countRules(saved: string): number {
  return saved.match(/^-A /gm)?.length ?? 0;
}

async function chooseBackend(
  runner: ProcessRunner,
): Promise<Pick<Iptables, "backend" | "reason" | "mixed">> {
  const nft = await savedBy(runner, "-nft");
  const legacy = await savedBy(runner, "-legacy");
  if (nft === undefined || legacy === undefined) {
    // The full name keeps our own rules from counting as another variant's.
    const backend = nft !== undefined ? "-nft" : legacy !== undefined ? "-legacy" : "";
    return { backend, reason: "iptables has one variant here", mixed: false };
  }
  const choice = backendOf({ nft, legacy });
  if (choice.backend !== "") return choice;
  const plain = await runIfInstalled(runner, ["iptables", "--version"]);
  return { ...choice, backend: plain?.stdout.includes("legacy") ? "-legacy" : "-nft" };
}

/** Returns a variant's rules of both families, or `undefined` if it is not installed. */
async function savedBy(runner: ProcessRunner, backend: Variant): Promise<string | undefined> {
  let saved: string | undefined;
  for (const family of FAMILIES) {
    // No `-t`: iptables-legacy-save would load the kernel module of the table.
    const result = await runIfInstalled(runner, [programName(family, "-save", backend)]);
    if (result) saved = (saved ?? "") + (result.code === 0 ? result.stdout : "");
  }
  return saved;
}

/** Checks that table `nat` of a family has a POSTROUTING chain, as kube-proxy does. */
async function checkFamily(runner: ProcessRunner, family: Family, backend: Variant): Promise<void> {
  const program = programName(family, "", backend);
  const argv = [program, "-w", `${LOCK_WAIT_SECONDS}`, "-t", "nat", "-S", "POSTROUTING"] as const;
  const result = await runIfInstalled(runner, argv);
  if (!result) throw missingProgram(program, undefined);
  if (result.code === 0) return;
  const failure = failureOf(program, result);
  // A busy lock says nothing about the family.
  if (failure.failure !== "busy") throw failure;
}
