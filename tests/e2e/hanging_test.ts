import { assertEquals, assertMatch } from "@std/assert";
import { linkPrograms, type Programs } from "../support/programs.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, service, slice } from "./cluster.ts";
import { Stage } from "./stage.ts";

const HELPERS = [
  ...["conntrack", "sysctl", "choom", "pgrep"],
  ...["iptables", "ip6tables"].flatMap((name) =>
    ["", "-nft", "-legacy"].flatMap((backend) => [`${name}${backend}`, `${name}${backend}-save`])
  ),
];

/** A PATH in which nft works, and all other programs that signpost runs hang. */
async function hangingHelpers(): Promise<Programs> {
  const pids = await Deno.makeTempFile({ prefix: "signpost-e2e-hanging-" });
  const script = `echo $$ >> ${pids}\nexec sleep 1000\n`;
  const programs = await linkPrograms(
    ["nft", "ip", "sleep"],
    Object.fromEntries(HELPERS.map((name) => [name, script])),
  );
  return {
    env: programs.env,
    [Symbol.asyncDispose]: async () => {
      for (const pid of (await Deno.readTextFile(pids)).split("\n").filter((line) => line !== "")) {
        try {
          Deno.kill(Number(pid), "SIGKILL");
        } catch (error) {
          if (!(error instanceof Deno.errors.NotFound) && !(error instanceof TypeError)) {
            throw error;
          }
        }
      }
      await Deno.remove(pids);
      await programs[Symbol.asyncDispose]();
    },
  };
}

Deno.test("rules follow changes while every other program hangs", async () => {
  const a = ADDRESSES[4];
  await using stage = await Stage.create({
    objects: [service(a, { spec: { type: "NodePort" } }), slice(a, ["local1"])],
    config: { oomScoreAdj: -500, conntrack: { maxPerCore: 1, min: 1 } },
  });
  await using programs = await hangingHelpers();
  await using signpost = stage.start(
    ["--proxy-mode", "nftables", "--state-file", `${stage.folder}/state`],
    { env: programs.env },
  );
  await signpost.waitForLog(/ synced kind=full/);
  for (const host of ["remote1", "local2", "local1"] as const) {
    stage.apply(slice(a, [host]));
    await signpost.until(`the endpoint ${host}`, async () => {
      const elements = await stage.network.run(NODE, [
        ...["nft", "list", "map", "inet", "signpost", "endpoints-udp4"],
      ]);
      return elements.includes(`${a[host]} . `);
    });
  }
  assertEquals(signpost.ended, undefined);
  const { status, body } = await stage.get("/livez", 10256);
  assertEquals(status, 200, body);
  assertMatch(signpost.log, / synced kind=partial/);
});
