/**
 * Lists the runs of `deno task kernels`: kernels of Debian, each with its nft.
 *
 * @module
 */

/** The suites of Debian that kernels and nft come from. */
const SUITES = ["bullseye", "bookworm", "trixie", "sid"] as const;

/** Names a suite. */
export type Suite = typeof SUITES[number];

/** Parts that a machine tries alone: the take-over from kube-proxy's ipvs mode, the fast path for long connections. */
export const SOLE_PARTS = ["ipvs", "flowtables"] as const;

/** Names a part that a machine tries alone. */
export type SolePart = typeof SOLE_PARTS[number];

/** One start of a virtual machine. */
export interface MachineRun {
  /** By which `deno task kernels` selects it. */
  readonly name: string;
  /** The suite of the kernel. */
  readonly suite: Suite;
  /** The package that always depends on the newest kernel of a series. */
  readonly package: string;
  /** The kernel's series; `undefined`: the newest. */
  readonly series?: string;
  /** The suite of nft. */
  readonly nft: Suite;
  /** A machine of this processor, with programs of the suite; absent: one like this machine. */
  readonly architecture?: "arm64";
  /** Another program's table is there, which the nft of this suite wrote; no mode is set. */
  readonly foreignNft?: Suite;
  /** More arguments for the kernel. */
  readonly kernelArguments?: readonly string[];
  /** Leaves iptables out: it does not run nft, or the kernel's other row has it. */
  readonly isNftablesOnly?: true;
  /** Tries this part, and nothing else. It also selects the run. */
  readonly only?: SolePart;
  /** A remark for the list and the table. */
  readonly note: string;
}

/** All runs. The names of the suites stay, and the versions of their packages change. */
export const MACHINE_RUNS: readonly MachineRun[] = [
  {
    name: "bullseye",
    suite: "bullseye",
    package: "linux-image-amd64",
    series: "5.10",
    nft: "bookworm",
    note: "Debian 11; its own nft is too old for nftables mode",
  },
  {
    name: "bookworm",
    suite: "bookworm",
    package: "linux-image-amd64",
    series: "6.1",
    nft: "bookworm",
    note: "Debian 12 as it is installed",
  },
  {
    name: "bookworm-6.12",
    suite: "bookworm",
    package: "linux-image-6.12-amd64",
    series: "6.12",
    nft: "bookworm",
    note: "Debian 12 with the newer kernel of its security archive",
  },
  {
    name: "trixie",
    suite: "trixie",
    package: "linux-image-amd64",
    series: "6.12",
    nft: "trixie",
    note: "Debian 13 as it is installed",
  },
  {
    name: "trixie-old-nft",
    suite: "trixie",
    package: "linux-image-amd64",
    series: "6.12",
    nft: "bookworm",
    isNftablesOnly: true,
    note: "Debian 13, nft in an image of Debian 12",
  },
  {
    name: "sid",
    suite: "sid",
    package: "linux-image-amd64",
    nft: "sid",
    note: "Debian's newest kernel and nft",
  },
  {
    name: "sid-old-nft",
    suite: "sid",
    package: "linux-image-amd64",
    nft: "bookworm",
    isNftablesOnly: true,
    note: "Debian's newest kernel, nft in an image of Debian 12",
  },
  {
    name: "no-ipv6",
    suite: "bookworm",
    package: "linux-image-amd64",
    series: "6.1",
    nft: "bookworm",
    kernelArguments: ["ipv6.disable=1"],
    note: "a node without IPv6 (ipv6.disable=1)",
  },
  {
    name: "foreign-sets",
    suite: "trixie",
    package: "linux-image-amd64",
    series: "6.12",
    nft: "bookworm",
    foreignNft: "trixie",
    note: "foreign sets of a newer nft: without a mode, iptables mode serves",
  },
  {
    name: "ipvs",
    suite: "bookworm",
    package: "linux-image-amd64",
    series: "6.1",
    nft: "bookworm",
    only: "ipvs",
    note: "Debian 12; the take-over from kube-proxy's ipvs mode",
  },
  {
    name: "bookworm-arm64",
    suite: "bookworm",
    package: "linux-image-arm64",
    series: "6.1",
    nft: "bookworm",
    architecture: "arm64",
    note: "Debian 12 on 64-bit ARM",
  },
  ...["", "-16k"].map((pages) => ({
    name: `trixie-arm64${pages}`,
    suite: "trixie" as const,
    package: `linux-image-arm64${pages}`,
    series: "6.12",
    nft: "trixie" as const,
    architecture: "arm64" as const,
    note: `Debian 13 on 64-bit ARM${pages && ", memory in pages of 16 kB"}`,
  })),
  ...SUITES.map((suite) => ({
    name: `flowtables-${suite}`,
    suite,
    package: "linux-image-amd64",
    nft: suite === "bullseye" ? "bookworm" as const : suite,
    isNftablesOnly: true as const,
    only: "flowtables" as const,
    note: `the fast path for long connections on the kernel of ${suite}`,
  })),
];

/** The names of all runs. */
export const NAMES: readonly string[] = MACHINE_RUNS.map(({ name }) => name);

/** Returns true if a run is on a node without IPv6. */
export function isWithoutIpv6(run: MachineRun): boolean {
  return run.kernelArguments?.includes("ipv6.disable=1") ?? false;
}

/**
 * Returns the names to run, in the catalog's order.
 *
 * @param wanted empty: all
 * @throws {Error} if a name is unknown
 */
export function selectNames(wanted: readonly string[]): string[] {
  const unknown = wanted.filter((word) => !NAMES.some((name) => isSelected(name, word)));
  if (unknown.length > 0) {
    throw new Error(`there is no ${unknown.join(", ")}: the names are ${NAMES.join(", ")}`);
  }
  return wanted.length === 0
    ? [...NAMES]
    : NAMES.filter((name) => wanted.some((word) => isSelected(name, word)));
}

/** Returns true if the word is the run's name, or the part that it tries alone. */
function isSelected(name: string, word: string): boolean {
  return name === word || MACHINE_RUNS.some((run) => run.name === name && run.only === word);
}

/**
 * Returns the run of a day: the next one each day. It leaves out the series that the machine itself runs, and the long
 * runs of ipvs mode, the fast path and another processor.
 *
 * @param dayOfYear 1 to 366
 * @param release of the machine's kernel, as `uname -r` prints it
 */
export function runOfDay(dayOfYear: number, release: string): MachineRun {
  const series = /^\d+\.\d+/.exec(release)?.[0];
  const others = MACHINE_RUNS.filter((run) =>
    run.only === undefined && run.architecture === undefined &&
    (run.series === undefined || run.series !== series)
  );
  const run = others[dayOfYear % others.length];
  if (run === undefined) throw new Error("there are no kernels to choose from");
  return run;
}

/** Returns the day of the year, 1 to 366, in UTC. */
export function dayOfYear(date: Date): number {
  const midnight = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate());
  return (midnight - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000 + 1;
}
