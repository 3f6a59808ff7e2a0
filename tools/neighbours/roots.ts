/** Root file systems of nodes: a distribution, and packages on top of it. @module */
import { run } from "../../tests/support/command.ts";
import { exists, Packages } from "../kernels/packages.ts";

/** Keeps root file systems for the next run. */
export const CACHE = "/var/tmp/signpost-neighbours";
/** Takes the files of this run's nodes. */
export const SCRATCH = `${CACHE}-${Deno.pid}`;

/** The distributions of nodes by the option `--root`, as suites of their archives. */
export const DISTRIBUTIONS: Readonly<Record<string, string>> = {
  debian11: "bullseye",
  debian12: "bookworm",
  debian13: "trixie",
  sid: "sid",
  ubuntu2204: "jammy",
  ubuntu2404: "noble",
  ubuntu2604: "resolute",
};

const UBUNTU = "http://archive.ubuntu.com/ubuntu";
const KEYRING = "/usr/share/keyrings/ubuntu-archive-keyring.gpg";

const BASE_PACKAGES = "systemd,systemd-sysv,dbus,nftables,iptables,ipset,conntrack," +
  "iproute2,procps,kmod,curl,mount";

/** Runs apt-get in an overlay. No unit starts: policy-rc.d says no, and there is no network. */
const INSTALL = `
set -eu
lower=$1 upper=$2
shift 2
export DEBIAN_FRONTEND=noninteractive
mount --make-rprivate /
mkdir -p "$upper" "$upper.work"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$upper.work" /mnt
cp --remove-destination /etc/resolv.conf /mnt/etc/
printf '#!/bin/sh\\nexit 101\\n' | install -m 755 /dev/stdin /mnt/usr/sbin/policy-rc.d
mount -t proc proc /mnt/proc
mount -t tmpfs tmpfs /mnt/run
chroot /mnt apt-get update -q
chroot /mnt apt-get install -y -q --no-install-recommends -d "$@"
unshare -n chroot /mnt apt-get install -y -q --no-install-recommends --no-download "$@"
chroot /mnt apt-get clean
rm /mnt/usr/sbin/policy-rc.d
umount -R /mnt
rm -r "$upper.work"
`;

/** Returns a distribution with packages in the form of overlay's `lowerdir`. @throws {CommandError} if it cannot be made */
export async function makeRoot(name: string, packages: readonly string[]): Promise<string> {
  const base = `${CACHE}/${name}`;
  await makeOnce(base, (folder) => makeBase(name, folder));
  if (packages.length === 0) return base;
  const upper = `${base}+${[...packages].sort().join("+")}`;
  const install = ["unshare", "-m", "bash", "-c", INSTALL, "install", base];
  await makeOnce(upper, (folder) => run([...install, folder, ...packages]));
  return `${upper}:${base}`;
}

/** Makes a folder under another name, and renames it as soon as it is complete. */
async function makeOnce(folder: string, make: (folder: string) => Promise<unknown>): Promise<void> {
  if (await exists(folder)) return;
  await run(["rm", "-rf", `${folder}.new`]);
  await make(`${folder}.new`);
  await Deno.rename(`${folder}.new`, folder);
}

async function makeBase(distribution: string, folder: string): Promise<void> {
  const suite = DISTRIBUTIONS[distribution] ?? distribution;
  const include = `--include=${BASE_PACKAGES}`;
  // A mirror's copy of sid may be old.
  const age = '--aptopt=Acquire::Check-Valid-Until "false"';
  const more = distribution.startsWith("ubuntu") ? await ubuntuSources(suite) : [];
  await Deno.mkdir(CACHE, { recursive: true });
  await run(["mmdebstrap", "--variant=apt", age, include, suite, folder, ...more]);
}

/** Returns the sources of Ubuntu's packages, and the file with its keys: the system's, or that of Debian's package. */
async function ubuntuSources(suite: string): Promise<string[]> {
  const packages = new Packages(`${CACHE}/packages`);
  const keys = await exists(KEYRING) ? "" : await packages.unpack("trixie", ["ubuntu-keyring"]);
  const sources = ["", "-updates"].map((pocket) => `deb ${UBUNTU} ${suite}${pocket} main universe`);
  return [...sources, `--keyring=${keys}${KEYRING}`];
}
