/** Debian 13's nft (1.1.3), which writes sets that older versions crash on. */
import { prepareNft } from "../../tools/kernels/nft.ts";
import { Packages } from "../../tools/kernels/packages.ts";
import type { Programs } from "./programs.ts";

/** Downloads it; its `nft` comes before that of this machine in the PATH. */
export async function newerNft(): Promise<Programs> {
  const folder = await Deno.makeTempDir({ prefix: "signpost-newer-nft-" });
  const remove = () => Deno.remove(folder, { recursive: true });
  try {
    const path = await prepareNft(new Packages(folder), "trixie");
    return {
      env: { PATH: `${path}:${Deno.env.get("PATH") ?? ""}` },
      [Symbol.asyncDispose]: remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}
