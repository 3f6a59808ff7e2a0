/**
 * Root file systems of nodes: a distribution, and packages on top of it.
 *
 * @module
 */
import { execute, run } from "../../tests/support/command.ts";
import { exists, Packages } from "../kernels/packages.ts";

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

const BASE_PACKAGES = [
  ...["systemd", "systemd-sysv", "dbus", "nftables", "iptables", "ipset", "conntrack"],
  ...["iproute2", "procps", "kmod", "curl", "mount"],
];

/** Runs apt-get in an overlay. No unit starts: policy-rc.d says no, and there is no network. */
const INSTALL = `
set -eu
lower=$1 upper=$2 work=$3 root=$4
shift 4
export DEBIAN_FRONTEND=noninteractive
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$work" "$root"
cp --remove-destination /etc/resolv.conf "$root/etc/"
printf '#!/bin/sh\\nexit 101\\n' > "$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
chroot "$root" apt-get update -q
chroot "$root" apt-get install -y -q --no-install-recommends -d "$@"
unshare -n chroot "$root" apt-get install -y -q --no-install-recommends --no-download "$@"
chroot "$root" apt-get clean
rm "$root/usr/sbin/policy-rc.d"
`;

/** Makes root file systems in a folder, which keeps them for the next run. */
export class Roots {
  readonly #folder: string;
  #last: Promise<unknown> = Promise.resolve();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Returns the folders of a distribution with packages, in the form of overlay's `lowerdir`.
   *
   * @throws {CommandError} if something cannot be downloaded or installed
   */
  lower(distribution: string, packages: readonly string[]): Promise<string> {
    const made = this.#last.then(() => this.#make(distribution, packages));
    this.#last = made.catch(() => {});
    return made;
  }

  async #make(distribution: string, packages: readonly string[]): Promise<string> {
    const base = await this.#base(distribution);
    if (packages.length === 0) return base;
    const upper = `${base}+${[...packages].sort().join("+")}`;
    if (!await exists(upper)) {
      const parts = [`${upper}.new`, `${upper}.work`, `${upper}.mounted`];
      for (const part of parts) await Deno.mkdir(part, { recursive: true });
      await run(["unshare", "-m", "bash", "-c", INSTALL, "install", base, ...parts, ...packages]);
      await Deno.rename(`${upper}.new`, upper);
      for (const part of parts.slice(1)) await Deno.remove(part, { recursive: true });
    }
    return `${upper}:${base}`;
  }

  async #base(distribution: string): Promise<string> {
    const suite = DISTRIBUTIONS[distribution];
    if (suite === undefined) throw new Error(`there is no root ${distribution}`);
    const folder = `${this.#folder}/${distribution}`;
    if (await exists(folder)) return folder;
    await Deno.mkdir(this.#folder, { recursive: true });
    const include = `--include=${BASE_PACKAGES.join(",")}`;
    await execute(["rm", "-rf", `${folder}.new`]);
    // A mirror's copy of sid may be old.
    const age = '--aptopt=Acquire::Check-Valid-Until "false"';
    const more = distribution.startsWith("ubuntu") ? await this.#ubuntu(suite) : [];
    await run(["mmdebstrap", "--variant=apt", age, include, suite, `${folder}.new`, ...more]);
    await Deno.rename(`${folder}.new`, folder);
    return folder;
  }

  /** Returns the sources of Ubuntu's packages, and the file with its keys: the system's, or that of Debian's package. */
  async #ubuntu(suite: string): Promise<string[]> {
    const packages = new Packages(`${this.#folder}/packages`);
    const keys = await exists(KEYRING) ? "" : await packages.unpack("trixie", ["ubuntu-keyring"]);
    const sources = ["", "-updates"].map((pocket) =>
      `deb ${UBUNTU} ${suite}${pocket} main universe`
    );
    return [...sources, `--keyring=${keys}${KEYRING}`];
  }
}
