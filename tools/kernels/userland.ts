/**
 * Programs for a machine of another processor. They lie over this machine's files, and no program of theirs runs here.
 *
 * @module
 */
import { execute } from "../../tests/support/command.ts";
import type { Suite } from "./catalog.ts";
import { exists, NotAvailable } from "./packages.ts";

/** The place of Deno in such a machine. */
export const DENO = "/usr/local/bin/deno";

const PACKAGES = [
  ...["bash", "dash", "coreutils", "util-linux", "mount", "grep", "sed", "mawk", "findutils"],
  ...["diffutils", "hostname", "libc-bin", "procps", "kmod", "python3", "iproute2", "nftables"],
  ...["iptables", "conntrack", "ipset", "xz-utils", "gzip", "tar"],
];
const HOOK = "/usr/share/mmdebstrap/hooks/merged-usr";

/**
 * Unpacks the programs for 64-bit ARM into a folder, which keeps them for the next run.
 *
 * @throws {NotAvailable} if something cannot be downloaded
 */
export async function prepareUserland(suite: Suite, folder: string): Promise<string> {
  const target = `${folder}/userland-${suite}`;
  if (await exists(target)) return target;
  const made = `${target}.new`;
  await must(["rm", "-rf", made]);
  await must([
    ...["mmdebstrap", "--mode=root", "--variant=extract", "--architectures=arm64"],
    ...["--skip=check/qemu", `--hook-dir=${HOOK}`, `--include=${PACKAGES.join(",")}`, suite, made],
  ]);
  const packed = (await must([
    ...["npm", "pack", "--silent", "--pack-destination", folder],
    `@deno/linux-arm64-glibc@${Deno.version.deno}`,
  ])).trim();
  await Deno.mkdir(`${made}/usr/local/bin`, { recursive: true });
  await must(["tar", "-xzf", `${folder}/${packed}`, "-C", folder]);
  await must(["mv", `${folder}/package/deno`, `${made}${DENO}`]);
  await Deno.rename(made, target);
  return target;
}

async function must(argv: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await execute(argv).catch((cause) => {
    throw new NotAvailable(`${argv[0]} cannot be run`, { cause });
  });
  if (code === 0) return stdout;
  throw new NotAvailable(`${argv.slice(0, 2).join(" ")} failed: ${stderr.trim().slice(-300)}`);
}
