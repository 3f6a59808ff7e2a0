import { assert, assertEquals, assertMatch } from "@std/assert";
import { linkPrograms, programPath, type Programs } from "../support/programs.ts";
import { NODE } from "../support/topology.ts";
import { largeService } from "./cluster.ts";
import { HEALTH_PORT, METRICS_PORT, Stage, syncs, WEB_FLOWS, WEBS } from "./stage.ts";

/** More than two portions. */
const LARGE = 55;

/** A PATH whose nft takes the first portion, and holds the second until the test ends it. */
async function holdingNft(folder: string): Promise<Programs> {
  const nft = await programPath("nft");
  return await linkPrograms(
    ["ip", "conntrack", "sysctl", "cat", "sleep"],
    {
      nft: `[ "$*" = "-f /dev/fd/0" ] || exec ${nft} "$@"
IFS= read -r line
case "$line" in
  add*) { printf '%s\\n' "$line"; exec cat; } | ${nft} -f - ;;
  *) echo $$ > ${folder}/held; exec sleep 1000 ;;
esac
`,
    },
  );
}

Deno.test("a start killed between two portions leaves no half table with a hook", async () => {
  const objects = [...WEBS, ...Array.from({ length: LARGE }, (_, i) => largeService(i)).flat()];
  await using stage = await Stage.create({ objects });
  await using programs = await holdingNft(stage.folder);
  const chains = () => stage.network.run(NODE, ["nft", "list", "chains"]);
  await using first = stage.start([], { env: programs.env });
  const held = await first.until("the second portion", async () => {
    const text = await Deno.readTextFile(`${stage.folder}/held`).catch(() => "");
    return Number(text);
  });
  // It answers meanwhile, and says how far it is.
  await first.until("the first portion", async () => {
    const { status, body } = await stage.get("/healthz", HEALTH_PORT);
    assertEquals([status, JSON.parse(body).progress], [200, "portions 1 of 4"], body);
    assertMatch((await stage.get("/statusz", METRICS_PORT)).body, /^portions: 1 of 4$/m);
    return true;
  });
  const structure = await chains();
  assert(structure.includes("table inet signpost {"), structure);
  assertEquals(/ hook /.test(structure), false, structure);
  first.kill("SIGKILL");
  await first.status;
  Deno.kill(held, "SIGKILL");
  assertEquals(/ hook /.test(await chains()), false);

  await using second = stage.start();
  await second.until("the first sync", () => syncs(second, "full") === 1);
  assertMatch(await chains(), /chain nat-output \{\n\t\ttype nat hook output/);
  await stage.flowsBecome(second, WEB_FLOWS);
  await stage.tableBecomesExpected(second);
});
