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
  ipvsadm: "ipvsadm",
  ipset: "ipset",
  sysctl: "procps",
  choom: "util-linux",
  openssl: "openssl",
  "systemd-analyze": "systemd",
  chromium: "chromium",
  "dpkg-deb": "dpkg",
  readelf: "binutils",
  lintian: "lintian",
  rpm: "rpm",
  rpm2cpio: "rpm2cpio",
  cpio: "cpio",
};

/** Packages of what only `deno task kernels` runs. */
const KERNEL_PACKAGES: Readonly<Record<string, string>> = {
  "qemu-system-x86_64": "qemu-system-x86",
  "qemu-system-aarch64": "qemu-system-arm",
  busybox: "busybox-static",
  modprobe: "kmod",
  python3: "python3",
};

/** All programs that the tests run. */
export const TEST_PROGRAMS: readonly string[] = Object.keys(PACKAGES);

/**
 * Sees to it that the programs are there, and installs what is missing where apt-get is at hand.
 *
 * @param options.needsRoot whether they are run as root, true by default
 * @returns what is in the way, as half a sentence; `undefined` where nothing is
 */
export async function installPrograms(
  programs: readonly string[],
  options: { readonly needsRoot?: boolean } = {},
): Promise<string | undefined> {
  if (Deno.uid() !== 0 && (options.needsRoot ?? true)) {
    return "it makes network namespaces and needs root: run it as root (sudo)";
  }
  const missing = programs.filter((program) => locateProgram(program) === undefined);
  if (missing.length === 0) return undefined;
  const known = { ...PACKAGES, ...KERNEL_PACKAGES };
  const packages = [...new Set(missing.map((program) => known[program] ?? program))];
  const words = `${missing.join(", ")} (Debian: apt-get install ${packages.join(" ")})`;
  if (Deno.uid() !== 0 || locateProgram("apt-get") === undefined) {
    return `these programs are missing: ${words}`;
  }
  complain(`Installing ${packages.join(", ")} with apt-get.`);
  const installed = await apt(["install", ...packages]) ||
    await apt(["update"]) && await apt(["install", ...packages]);
  return installed ? undefined : `apt-get could not install ${words}`;
}

/** The path of a program in the PATH, or where only root looks. */
export function locateProgram(program: string): string | undefined {
  const folders = `${Deno.env.get("PATH") ?? ""}:/usr/sbin:/sbin`.split(":");
  return folders.map((folder) => `${folder}/${program}`).find((path) => {
    try {
      return Deno.statSync(path).isFile;
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
