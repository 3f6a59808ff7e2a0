/**
 * nft of another suite, with its own libraries.
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
export async function prepareNft(packages: Packages, suite: Suite): Promise<string> {
  const names = await packages.dependencies(suite, "nftables");
  const folder = await packages.unpack(suite, [
    "nftables",
    ...names.filter((n) => n !== "nftables"),
  ]);
  const program = await findProgram(folder, "nft");
  const loaders = LOADERS.map((place) => `${folder}/${place}/ld-linux-x86-64.so.2`);
  const there = await Promise.all(loaders.map(exists));
  const loader = loaders.find((_, i) => there[i]);
  if (loader === undefined) throw new NotAvailable(`nft of ${suite} came without its libc`);
  const path = LIBRARIES.map((place) => `${folder}/${place}`).join(":");
  const own = `${folder}/path`;
  await Deno.mkdir(own, { recursive: true });
  const script = `#!/bin/sh\nexec ${loader} --library-path ${path} ${program} "$@"\n`;
  await Deno.writeTextFile(`${own}/nft`, script, { mode: 0o755 });
  return own;
}
