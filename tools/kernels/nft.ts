/**
 * Programs of another suite, with their own libraries: nft, and what ipvs mode works with.
 *
 * @module
 */
import type { Suite } from "./catalog.ts";
import { exists, findProgram, NotAvailable, type Packages } from "./packages.ts";

const LIBRARIES = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
const LOADERS = [...LIBRARIES, "lib64", "usr/lib64"];

/**
 * Downloads nft.
 *
 * @returns a folder with `nft` in it, for the PATH
 * @throws {NotAvailable}
 */
export function prepareNft(packages: Packages, suite: Suite): Promise<string> {
  return prepareProgram(packages, suite, { program: "nft", name: "nftables" });
}

/**
 * Downloads a program.
 *
 * @param what its name, and that of its package
 * @returns a folder with it, for the PATH
 * @throws {NotAvailable}
 */
export async function prepareProgram(
  packages: Packages,
  suite: Suite,
  { program, name }: { readonly program: string; readonly name: string },
): Promise<string> {
  const names = await packages.dependencies(suite, name);
  const folder = await packages.unpack(suite, [name, ...names.filter((each) => each !== name)]);
  const file = await findProgram(folder, program);
  const loaders = LOADERS.map((place) => `${folder}/${place}/ld-linux-x86-64.so.2`);
  const there = await Promise.all(loaders.map(exists));
  const loader = loaders.find((_, i) => there[i]);
  if (loader === undefined) throw new NotAvailable(`${program} of ${suite} came without its libc`);
  const path = LIBRARIES.map((place) => `${folder}/${place}`).join(":");
  const own = `${folder}/path`;
  await Deno.mkdir(own, { recursive: true });
  const script = `#!/bin/sh\nexec ${loader} --library-path ${path} ${file} "$@"\n`;
  await Deno.writeTextFile(`${own}/${program}`, script, { mode: 0o755 });
  return own;
}
