/**
 * Which iptables this node uses.
 *
 * Rules of iptables-nft and of iptables-legacy do not see each other; a program that writes with
 * the wrong one breaks the order that others count on.
 *
 * @module
 */
import { FAMILIES, type Family } from "../../../model/values/address.ts";
import { ApplyError } from "../../../model/kernel/dataplane.ts";
import type { ProcessRunner } from "../../../model/ports/ports.ts";
import type { Abilities } from "../script/fixed_rules.ts";
import { failureOf, LOCK_WAIT_SECONDS, missingProgram } from "./errors.ts";
import { Sysctl } from "../../sysctl.ts";
import { runIfThere } from "./run.ts";
import { programName } from "../script/script.ts";

/** `-nft` or `-legacy`; `""`: what the system means by plain `iptables`. */
export type Variant = "" | "-nft" | "-legacy";

/** What this node's iptables is and can do. */
export interface Iptables {
  readonly backend: Variant;
  /** Why this backend: for the log. */
  readonly reason: string;
  /** Both backends hold rules: worth a warning. */
  readonly mixed: boolean;
  /** Wanted families that work, IPv4 first; at least one. */
  readonly families: readonly Family[];
  /** Why a family does not work: for the log. */
  readonly missing: ReadonlyMap<Family, string>;
  readonly abilities: Abilities;
  /** As `iptables --version` prints it. */
  readonly version: string;
}

/**
 * Finds out which backend to use, which families work, and what the programs can do.
 *
 * @param wanted the families that the node has
 * @throws {ApplyError} where iptables works for no family
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
      // It may be over at the next try, and the family is not to be without rules until then.
      if (error instanceof ApplyError && error.failure === "program-failed") throw error;
      missing.set(family, error.message);
      errors.push(error);
    }
  }
  const [first] = families;
  if (first === undefined) throw errors[0];
  const version = await runIfThere(runner, [programName(first, "", choice.backend), "--version"]);
  const text = version?.stdout.trim() ?? "";
  const abilities = {
    ...abilitiesOf(text),
    ...await isTcpLiberal(runner) && { tcpBeLiberal: true },
  };
  return { ...choice, families, missing, abilities, version: text };
}

/** Whether the node lets TCP packets out of window pass (a sysctl that administrators set, too). */
export async function isTcpLiberal(runner: ProcessRunner): Promise<boolean> {
  const name = "net.netfilter.nf_conntrack_tcp_be_liberal";
  const value = await new Sysctl(runner).read(name).catch(() => "");
  return /^[1-9]/.test(value);
}

/** What a version of iptables can do, from the output of `iptables --version`. */
export function abilitiesOf(version: string): Abilities {
  const [, major = "0", minor = "0", patch = "0"] = /v(\d+)\.(\d+)(?:\.(\d+))?/.exec(version) ?? [];
  const number = Number(major) * 1e6 + Number(minor) * 1e3 + Number(patch);
  return { randomFully: number >= 1_006_002 };
}

/** One backend's rules, as its save programs print them for both families. */
export interface BackendRules {
  readonly nft: string;
  readonly legacy: string;
}

const KUBELET_HINTS = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"] as const;

/**
 * Chooses as the iptables wrappers of Kubernetes' images do: the backend in which kubelet has left
 * its hint (KEP-3178), else the one with more rules, else the system's own `iptables`.
 */
export function backendOf(rules: BackendRules): Pick<Iptables, "backend" | "reason" | "mixed"> {
  const count = { nft: countRules(rules.nft), legacy: countRules(rules.legacy) };
  const mixed = count.nft > 0 && count.legacy > 0;
  for (const name of ["nft", "legacy"] as const) {
    // In either family: the text has both, one after the other.
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
    // By its full name, so that our own rules are not taken for those of another backend.
    const backend = nft !== undefined ? "-nft" : legacy !== undefined ? "-legacy" : "";
    return { backend, reason: "iptables has one backend here", mixed: false };
  }
  const choice = backendOf({ nft, legacy });
  if (choice.backend !== "") return choice;
  const plain = await runIfThere(runner, ["iptables", "--version"]);
  return { ...choice, backend: plain?.stdout.includes("legacy") ? "-legacy" : "-nft" };
}

/** What a backend holds in both families; `undefined` where it is not installed. */
async function savedBy(runner: ProcessRunner, backend: Variant): Promise<string | undefined> {
  let saved: string | undefined;
  for (const family of FAMILIES) {
    // Without `-t`: iptables-legacy-save would load the kernel module of a table that it is asked for.
    const result = await runIfThere(runner, [programName(family, "-save", backend)]);
    if (result) saved = (saved ?? "") + (result.code === 0 ? result.stdout : "");
  }
  return saved;
}

/** A family works where its table `nat` has a POSTROUTING chain, as kube-proxy checks it. */
async function checkFamily(runner: ProcessRunner, family: Family, backend: Variant): Promise<void> {
  const program = programName(family, "", backend);
  const argv = [program, "-w", `${LOCK_WAIT_SECONDS}`, "-t", "nat", "-S", "POSTROUTING"] as const;
  const result = await runIfThere(runner, argv);
  if (!result) throw missingProgram(program, undefined);
  if (result.code === 0) return;
  const failure = failureOf(program, result);
  // Whoever holds the lock now is not there for ever: the family is.
  if (failure.failure !== "busy") throw failure;
}
