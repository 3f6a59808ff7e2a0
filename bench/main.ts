/**
 * `deno task bench`: measures signpost on this machine, in namespaces of its own.
 *
 * Prints tables, and writes those of `bench/README.md`. Needs root.
 *
 * @module
 */
import { replaceMarked } from "../tools/marked.ts";
import { hostile } from "./hostile.ts";
import { HELP, type Options, readOptions } from "./options.ts";
import { measurePeers, renderComparison, renderPeerPage } from "./peer.ts";
import { describeMachine, describeSitting, makeProgram } from "./program.ts";
import { print, progress } from "./report.ts";
import { scale } from "./scale/scale.ts";
import { measureSize, type SizeResult } from "./size.ts";
import { renderResults } from "./tables.ts";

const path = (name: string) => new URL(`../${name}`, import.meta.url).pathname;
const BENCH_PAGE = path("bench/README.md");
const PEER_JSON = path("bench/peer.json");
const PEER_PAGE = path("docs/performance.md");
const README = path("README.md");

async function bench(options: Options): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "signpost-bench-" });
  try {
    progress(`measuring ${await makeProgram(folder)}`);
    if (options.peer === undefined) await benchSizes(options);
    else await benchPeers({ ...options, peer: options.peer });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function benchSizes(options: Options): Promise<void> {
  const [sitting, machine] = [await describeSitting(), await describeMachine()];
  const sizes: SizeResult[] = [];
  for (const services of options.sizes) {
    progress(`${services} Services`);
    sizes.push(await measureSize(services, options));
  }
  const text = renderResults({ sitting, machine, sizes });
  print(text);
  if (!options.writes) return;
  const page = await Deno.readTextFile(BENCH_PAGE);
  await Deno.writeTextFile(BENCH_PAGE, replaceMarked(page, { name: "bench", text }));
  progress(`wrote ${BENCH_PAGE}`);
}

async function benchPeers(options: Options & { readonly peer: string }): Promise<void> {
  const results = await measurePeers({ ...options, sizes: options.peerSizes });
  const page = renderPeerPage(await Deno.readTextFile(PEER_PAGE), results);
  print(page);
  if (!options.writes) return;
  await Deno.writeTextFile(PEER_JSON, `${JSON.stringify(results, undefined, 2)}\n`);
  await Deno.writeTextFile(PEER_PAGE, page);
  const readme = await Deno.readTextFile(README);
  await Deno.writeTextFile(README, renderComparison(readme, results));
  progress(`wrote ${PEER_JSON}, ${PEER_PAGE} and ${README}`);
}

if (import.meta.main) {
  const [first, ...rest] = Deno.args;
  if (first === "scale") await scale(rest);
  else if (first === "--hostile") await hostile(Deno.args);
  else {
    const options = readOptions(Deno.args);
    if (options.help) print(HELP);
    else await bench(options);
  }
  Deno.exit();
}
