/**
 * The system's programs that the tools and tests need, and how Debian names their packages.
 *
 * @module
 */
import { complain } from "./terminal.ts";

/** Debian's package of each program. */
const PACKAGES: Readonly<Record<string, string>> = {
  nft: "nftables",
  "iptables-nft": "iptables",
  conntrack: "conntrack",
  ip: "iproute2",
  sysctl: "procps",
  choom: "util-linux",
  openssl: "openssl",
  "systemd-analyze": "systemd",
  chromium: "chromium",
};

/** All programs that the tests run. */
export const TEST_PROGRAMS: readonly string[] = Object.keys(PACKAGES);

/**
 * Sees to it that the programs are there, and installs what is missing where apt-get is at hand.
 *
 * @returns what is in the way, as half a sentence; `undefined` where nothing is
 */
export async function installPrograms(programs: readonly string[]): Promise<string | undefined> {
  if (Deno.uid() !== 0) return "it makes network namespaces and needs root: run it as root (sudo)";
  const missing = programs.filter((program) => !isInstalled(program));
  if (missing.length === 0) return undefined;
  const packages = [...new Set(missing.map((program) => PACKAGES[program] ?? program))];
  const words = `${missing.join(", ")} (Debian: apt-get install ${packages.join(" ")})`;
  if (!isInstalled("apt-get")) return `these programs are missing: ${words}`;
  complain(`Installing ${packages.join(", ")} with apt-get.`);
  const installed = await apt(["install", ...packages]) ||
    await apt(["update"]) && await apt(["install", ...packages]);
  return installed ? undefined : `apt-get could not install ${words}`;
}

/** Whether a program is in the PATH, or where only root looks. */
function isInstalled(program: string): boolean {
  const folders = `${Deno.env.get("PATH") ?? ""}:/usr/sbin:/sbin`.split(":");
  return folders.some((folder) => {
    try {
      return Deno.statSync(`${folder}/${program}`).isFile;
    } catch {
      return false;
    }
  });
}

async function apt(args: readonly string[]): Promise<boolean> {
  const { success } = await new Deno.Command("apt-get", {
    args: ["-y", "-q", "--no-install-recommends", ...args],
    env: { DEBIAN_FRONTEND: "noninteractive" },
    stdin: "null",
    stdout: "null",
    stderr: "inherit",
  }).spawn().status;
  return success;
}
