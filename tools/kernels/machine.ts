/**
 * A virtual machine by software emulation: no KVM, no image, no root.
 *
 * It runs one of Debian's kernels on a copy-on-write view of this machine's `/`, so that the
 * same programs are there.
 *
 * @module
 */
import type { BootFiles } from "./boot_files.ts";

/** The kernel and the command to run. */
export interface MachineOptions {
  readonly boot: BootFiles;
  readonly kernelArguments: readonly string[];
  /** A folder with programs for 64-bit ARM: the machine is one. `undefined`: it is like this machine. */
  readonly userland: string | undefined;
  /** A shell command, run as root, with `/out` for its results. */
  readonly command: string;
  /** The folder that is `/out` there. */
  readonly out: string;
  /** Folders with programs, before the usual ones. */
  readonly path: readonly string[];
  /**
   * One processor whose clock counts instructions: what other work the host does, changes no time in
   * the machine.
   */
  readonly countsInstructions: boolean;
  /** Ends the machine. */
  readonly signal: AbortSignal;
}

/** Low, so that a machine in a window stays usable. */
const NICENESS = "5";
const MEMORY_MEBIBYTES = 3072;
const X86_64 = ["qemu-system-x86_64", "-machine", "q35", "-cpu", "max"];
const ARM64 = ["qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on"];
const FAST = ["-accel", "tcg,thread=multi,tb-size=512", "-smp", "2"];
/** An instruction takes 4 ns. */
const COUNTED = [
  ...["-accel", "tcg,thread=single,tb-size=512", "-smp", "1"],
  ...["-icount", "shift=2,sleep=off"],
];

/** Runs a machine to its end. The console is in `out/console`. */
export async function runMachine(options: MachineOptions): Promise<void> {
  const { boot, out, signal, userland } = options;
  await Deno.writeTextFile(`${out}/start`, startScript(options));
  const kernelArguments = [
    `console=${userland === undefined ? "ttyS0" : "ttyAMA0"}`,
    "loglevel=4 panic=-1 mitigations=off nokaslr rcupdate.rcu_expedited=1",
    ...options.kernelArguments,
  ];
  const share = (id: string, path: string, more = "") => [
    ...["-fsdev", `local,id=${id},path=${path},security_model=none${more}`],
    ...["-device", `virtio-9p-pci,fsdev=${id},mount_tag=${id}`],
  ];
  const args = [
    ...["-n", NICENESS],
    ...userland === undefined ? X86_64 : ARM64,
    ...["-m", `${MEMORY_MEBIBYTES}`],
    ...options.countsInstructions ? COUNTED : FAST,
    ...["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"],
    ...["-serial", `file:${out}/console`],
    ...["-kernel", boot.kernel, "-initrd", boot.initrd, "-append", kernelArguments.join(" ")],
    ...share("host", "/", ",readonly=on,multidevs=remap"),
    ...share("out", out),
    ...userland === undefined ? [] : share("userland", userland, ",readonly=on"),
  ];
  const child = new Deno.Command("nice", {
    args,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const kill = () => child.kill("SIGKILL");
  signal.addEventListener("abort", kill);
  if (signal.aborted) kill();
  try {
    const { stderr } = await child.output();
    if (stderr.length > 0) {
      await Deno.writeFile(`${out}/console`, stderr, { append: true, create: true });
    }
  } finally {
    signal.removeEventListener("abort", kill);
  }
}

/** Returns the script that follows the machine's first root. */
function startScript({ boot, command, path }: MachineOptions): string {
  const folders = [...path, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"];
  return `export PATH=${folders.join(":")} HOME=/root LC_ALL=C DENO_DIR=/run/deno
export DENO_NO_UPDATE_CHECK=1 NO_COLOR=1
rm -rf /lib/modules; ln -sfn ${boot.modules} /lib/modules
mount -t tmpfs run /run; mkdir -p /run/netns /run/lock /run/deno /dev/pts /dev/shm
mount -t tmpfs shm /dev/shm; mount -t devpts pts /dev/pts
mount -t cgroup2 cgroup /sys/fs/cgroup; mount -t tmpfs state /var/lib
ip link set lo up; hostname kernels; modprobe -a sctp nf_conntrack
sysctl -qw net.netfilter.nf_conntrack_max=65536
cd /
${command}
sync
echo o > /proc/sysrq-trigger
sleep 60
`;
}
