/**
 * Makes the files that a virtual machine boots: a kernel of Debian's, and a first root that finds this machine's.
 *
 * @module
 */
import { gzipSync } from "node:zlib";
import { run } from "../../tests/support/command.ts";
import { writeArchive } from "./archive.ts";
import { exists, NotAvailable } from "./packages.ts";

/** The files of one kernel. */
export interface BootFiles {
  readonly kernel: string;
  readonly initrd: string;
  /** The folder that is `/lib/modules` in the machine. */
  readonly modules: string;
}

/** The modules that the root file system needs. */
const ROOT_MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/** Programs that unpack a module, by the end of its name. */
const UNPACKERS: Readonly<Record<string, string>> = { xz: "xzcat", gz: "zcat" };

/**
 * The first program: a copy-on-write view of this machine's `/`, and `/out` to write into.
 *
 * Writes go to memory; nothing of them is left when the machine ends.
 */
const INIT = `#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /lower /rw /new
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
fail() { echo "init: $*"; poweroff -f; }
for module in /mods/*; do insmod "$module" || echo "init: cannot load $module"; done
opts=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o $opts,ro,cache=loose host /lower || fail "no root file system"
mount -t tmpfs -o size=75% rw /rw; mkdir /rw/up /rw/work /userland
lower=/lower
mount -t 9p -o $opts,ro,cache=loose userland /userland 2>/dev/null && lower=/userland:/lower
mount -t overlay -o lowerdir=$lower,upperdir=/rw/up,workdir=/rw/work root /new || fail "no overlay"
mkdir -p /new/out /new/proc /new/sys /new/dev
mount -t 9p -o $opts,cache=none out /new/out || fail "no folder for results"
for folder in proc sys dev; do mount --move /$folder /new/$folder; done
exec switch_root /new /bin/sh /out/start
`;

/**
 * Makes a kernel's first root.
 *
 * @param unpacked the folder with the kernel's packages
 * @param options.first the machine's busybox, without libraries
 * @param options.busybox this machine's
 * @param options.folder where the initrd is written
 * @throws {NotAvailable} where the packages are not what is expected
 */
export async function makeBootFiles(
  unpacked: string,
  options: { readonly first: string; readonly busybox: string; readonly folder: string },
): Promise<BootFiles> {
  // 6.12 and newer have it below usr.
  const base = await exists(`${unpacked}/lib/modules`) ? unpacked : `${unpacked}/usr`;
  const modules = `${base}/lib/modules`;
  const release = (await Array.fromAsync(Deno.readDir(modules)).catch(() => []))[0]?.name;
  if (release === undefined) throw new NotAvailable(`${unpacked} has no modules`);
  await run(["depmod", "-b", base, release]);
  const candidates = [
    `${unpacked}/boot/vmlinuz-${release}`,
    `${modules}/${release}/vmlinuz`,
    `${unpacked}/usr/boot/vmlinuz-${release}`,
  ];
  const there = await Promise.all(candidates.map(exists));
  const kernel = candidates.find((_, i) => there[i]);
  if (kernel === undefined) throw new NotAvailable(`${unpacked} has no vmlinuz of ${release}`);
  const files = await loadModules(base, release, options.busybox);
  const archive = writeArchive([
    { path: "bin" },
    { path: "mods" },
    { path: "bin/busybox", content: await Deno.readFile(options.first) },
    { path: "init", content: new TextEncoder().encode(INIT) },
    ...files.map((content, i) => ({ path: `mods/${10 + i}`, content })),
  ]);
  const initrd = `${options.folder}/initrd`;
  await Deno.writeFile(initrd, gzipSync(archive, { level: 1 }));
  return { kernel, initrd, modules };
}

/** The modules in the order in which they can be loaded, unpacked. */
async function loadModules(base: string, release: string, busybox: string): Promise<Uint8Array[]> {
  const paths = new Set<string>();
  for (const name of ROOT_MODULES) {
    const text = await run(["modprobe", "-d", base, "-S", release, "--show-depends", name]);
    for (const [, path = ""] of text.matchAll(/^insmod (\S+)/gm)) paths.add(path);
  }
  return await Promise.all([...paths].map((path) => readModule(path, busybox)));
}

async function readModule(path: string, busybox: string): Promise<Uint8Array> {
  const unpacker = UNPACKERS[path.slice(path.lastIndexOf(".") + 1)];
  if (unpacker === undefined) return await Deno.readFile(path);
  const { success, stdout } = await new Deno.Command(busybox, { args: [unpacker, path] }).output();
  if (!success) throw new NotAvailable(`${path} cannot be unpacked`);
  return stdout;
}
