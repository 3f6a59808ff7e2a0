import { assert, assertEquals, assertRejects } from "@std/assert";
import { linkPrograms, programPath } from "../support/programs.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, type EndpointHost, PORT, service, slice } from "./cluster.ts";
import { assertFlows } from "./flow.ts";
import { both, bothFlows, HEALTH_PORT, Stage, StateFile, syncs } from "./stage.ts";
import { SteadyClient } from "./steady.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("the state file");

const WEB = both((a) => [service(a, { name: `web${a.family}` })]);
const EXTRA = service(ADDRESSES[4], { name: "extra", spec: { clusterIP: "10.96.0.77" } });
const on = (...hosts: readonly EndpointHost[]) =>
  both((a) => [slice(a, hosts, { service: `web${a.family}` })]);
const reaches = (hosts: readonly EndpointHost[]) =>
  bothFlows((a) => [{ from: "pod", to: a.clusterIP, reaches: hosts }]);

test("signpost starts from the state file without an API server", async () => {
  await using state = await StateFile.create();
  await using stage = await Stage.create({ objects: [...WEB, EXTRA, ...on("local1")] });
  await using first = await stage.startSynced(state.args);
  await first.stop();
  assertEquals(((await Deno.stat(state.path)).mode ?? 0) & 0o777, 0o600);

  // The machine starts again, and the API server does not.
  await stage.api.stop();
  await stage.network.run(NODE, ["nft", "flush", "ruleset"]);
  await using second = await stage.startSynced(state.args);
  await second.waitForLog(/INFO no rules are in the kernel: writing the rules of the state file/);
  await stage.flowsBecome(second, reaches(["local1"]));
  assertEquals(await stage.metric("signpost_state_stale"), 1);
  assert(await stage.metric("signpost_snapshot_age_seconds") > 0);
  // Load balancers send traffic here, as before: the saved Node says so until its object comes.
  assertEquals((await stage.get("/healthz", HEALTH_PORT)).status, 200);

  await stage.network.run(NODE, ["nft", "flush", "ruleset"]);
  await second.until("the repair", () => syncs(second, "full") === 2);
  await stage.flowsBecome(second, reaches(["local1"]));

  stage.api.store.delete("Service", "shop/extra");
  stage.apply(...on("remote1"));
  await stage.api.start();
  await stage.flowsBecome(second, [
    ...reaches(["remote1"]),
    { from: "pod", to: "10.96.0.77", reaches: "drop" },
  ]);
  await second.until("the metric", async () => await stage.metric("signpost_state_stale") === 0);
  assertEquals(syncs(second, "full"), 2);
  await stage.tableBecomesExpected(second);
});

test("load balancers get the saved Node's state while it is being written", async () => {
  await using state = await StateFile.create();
  await using stage = await Stage.create({ objects: [...WEB, ...on("local1")] });
  await using first = await stage.startSynced(state.args);
  await first.stop();
  await stage.api.stop();
  await stage.network.run(NODE, ["nft", "flush", "ruleset"]);
  const [nft, sleep] = await Promise.all([programPath("nft"), programPath("sleep")]);
  await using programs = await linkPrograms(["ip", "conntrack", "sysctl"], {
    nft: `if [ "$*" = "-f /dev/fd/0" ]; then
  : > ${stage.folder}/held
  while [ -e ${stage.folder}/held ] && [ ! -e ${stage.folder}/go ]; do ${sleep} 0.05; done
fi
exec ${nft} "$@"
`,
  });
  await using second = stage.start(state.args, { env: programs.env });
  await second.until("nft has the rules", async () => {
    return await Deno.stat(`${stage.folder}/held`).then(() => true, () => false);
  });
  assertEquals((await stage.get("/healthz", HEALTH_PORT)).status, 200);
  assertEquals(syncs(second, "full"), 0);
  await Deno.writeTextFile(`${stage.folder}/go`, "");
  await stage.flowsBecome(second, reaches(["local1"]));
});

for (const mode of ["nftables", "iptables"] as const) {
  test(`rules that are newer than the state file outlive a crash (${mode})`, async () => {
    await using state = await StateFile.create();
    await using stage = await Stage.create({
      objects: [...WEB, ...on("local1", "local2")],
      config: { mode },
    });
    const { network } = stage;
    await using first = await stage.startSynced(state.args);
    await first.stop();
    const old = await Deno.readFile(state.path);

    await using second = await stage.startSynced(state.args);
    stage.apply(EXTRA, slice(ADDRESSES[4], ["remote1"], { service: "extra" }), ...on("local1"));
    const newer = [
      ...reaches(["local1"]),
      { from: "pod", to: "10.96.0.77", reaches: ["remote1"] },
    ] as const;
    await stage.flowsBecome(second, newer);
    second.kill("SIGKILL");
    await second.status;
    // UDP entries of before the change may not have been deleted yet.
    await network.flushConntrack();
    await Deno.writeFile(state.path, old);
    await stage.api.stop();

    const clients = ["10.96.0.10", "10.96.0.77"].map((address) =>
      new SteadyClient(network, { from: "pod", address, port: PORT })
    );
    await using third = stage.start(state.args);
    await third.waitForLog(/the watch of \w+ objects failed/);
    await third.waitForLog(/INFO the rules in the kernel stay until/);
    assertEquals((await stage.get("/healthz", HEALTH_PORT)).status, 200);
    assertEquals((await stage.get("/readyz", HEALTH_PORT)).status, 503);
    await assertFlows(network, newer);
    await stage.api.start();
    await third.until("the first sync", () => syncs(third, "full") > 0);
    assertEquals(Math.min(...await Promise.all(clients.map((each) => each.stop()))) > 0, true);
    await assertFlows(network, newer);
    assertEquals(syncs(third, "full"), 1);
  });
}

const DAMAGES: readonly (readonly [what: string, damage: (path: string) => Promise<unknown>])[] = [
  ["is no gzip file", (path) => Deno.writeTextFile(path, "{}")],
  ["may be written by others", (path) => Deno.chmod(path, 0o666)],
];

test("a state file that cannot be trusted is ignored with a warning", async (test) => {
  await using state = await StateFile.create();
  await using stage = await Stage.create({ objects: [...WEB, ...on("local1")] });
  for (const [what, damage] of DAMAGES) {
    await test.step(`one that ${what}`, async () => {
      await Deno.remove(state.path).catch(() => {});
      await using first = await stage.startSynced(state.args);
      await first.stop();
      await stage.network.run(NODE, ["nft", "flush", "ruleset"]);
      await stage.api.stop();
      await damage(state.path);
      await using second = stage.start(state.args);
      await second.waitForLog(
        /WARN the state file is not used: cannot use \/var\/lib\/signpost\/e2e-/,
      );
      await second.waitForLog(/the watch of \w+ objects failed/);
      await assertRejects(() => stage.table(), Error, "No such file");
      await stage.api.start();
      await stage.flowsBecome(second, reaches(["local1"]));
    });
  }
});
