import { assertEquals } from "@std/assert";
import { Background } from "../support/background.ts";
import { run } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { NODE } from "../support/topology.ts";
import {
  ADDRESSES,
  ENDPOINT_HOSTS,
  largeService,
  NODE_PORT,
  PORT,
  service,
  slice,
} from "./cluster.ts";
import { both, isMonitoring, Stage, syncs, WEB_FLOWS } from "./stage.ts";
import { SteadyClient } from "./steady.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("restarts");

const OBJECTS = both((a) => [
  service(a, { name: `web${a.family}`, spec: { type: "NodePort" } }),
  slice(a, ENDPOINT_HOSTS, { service: `web${a.family}` }),
]);

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`the rules stay after ${signal} ended signpost`, async () => {
    await using stage = await Stage.create({ objects: OBJECTS });
    await using signpost = await stage.startSynced();
    const before = await stage.table();
    signpost.kill(signal);
    assertEquals((await signpost.status).code, 0);
    // The nat chains let other proxies go first, and are listed last.
    const rules = (lines: readonly string[]) =>
      lines.map((line) => line.replace(/"prio":-(?:101|99),/, "")).sort();
    assertEquals(rules(await stage.table()), rules(before));
    for (const { address, port } of targets()) {
      const outcomes = await stage.network.connect({ from: "pod", address, port, times: 20 });
      assertEquals(new Set(outcomes.map(({ type }) => type)), new Set(["answer"]));
    }
  });
}

for (const mode of ["nftables", "iptables"] as const) {
  test(`an nft monitor that SIGKILL left is ended by the next start in ${mode} mode`, async () => {
    await using stage = await Stage.create({ objects: OBJECTS });
    const monitors = async () => {
      const pids = (await run(["ip", "netns", "pids", stage.network.namespaceOf(NODE)])).split(
        "\n",
      );
      const lines = await Promise.all(pids.filter((pid) => pid !== "").map(commandOf));
      return lines.filter((line) => line.includes(" monitor "));
    };
    {
      await using first = await stage.startSynced();
      await first.until("its monitor", async () => (await monitors()).length === 1);
      first.kill("SIGKILL");
      await first.status;
    }
    assertEquals((await monitors()).length, 1);
    await using second = stage.start(["--proxy-mode", mode]);
    await second.until("its first sync", () => syncs(second, "full") === 1);
    const wanted = mode === "nftables" ? 1 : 0;
    await second.until("no monitor but its own", async () => (await monitors()).length === wanted);
  });
}

/** Returns the command line of a process; `""`: it has ended. */
async function commandOf(pid: string): Promise<string> {
  const text = await Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => "");
  return text.replaceAll("\0", " ");
}

test("a restart takes the rules over: one replacement, no connection is lost", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  const { network } = stage;
  await using first = await stage.startSynced();
  const targetsNow = targets();
  const long = await Promise.all(targetsNow.map((to) => network.stay({ from: "pod", ...to })));
  const steady = targetsNow.map((to) => new SteadyClient(network, { from: "pod", ...to }));
  await first.stop();

  await using monitor = new Background(
    ["ip", "netns", "exec", network.namespaceOf(NODE), "nft", "monitor", "destroy"],
  );
  await eventually("a monitor of the table", () => isMonitoring(monitor.pid));
  for (const connection of long) {
    assertEquals(await connection.exchange("still here"), "still here");
  }
  await using second = await stage.startSynced();
  for (const connection of long) assertEquals(await connection.exchange("and here"), "and here");
  await stage.flowsBecome(second, WEB_FLOWS);
  await Promise.all(steady.map((client) => client.stop()));
  long.forEach((connection) => connection.close());

  assertEquals(syncs(second, "full"), 1);
  const replaced = monitor.lines.filter((line) => /^delete table inet signpost/.test(line));
  assertEquals(replaced.length, 1);
  await stage.tableBecomesExpected(second);
});

test("after a crash only what differs of a large table is written", async () => {
  const large = Array.from({ length: 55 }, (_, i) => largeService(i)).flat();
  await using stage = await Stage.create({ objects: [...OBJECTS, ...large] });
  await using first = await stage.startSynced();
  first.kill("SIGKILL");
  await first.status;
  stage.remove("Service", "shop/web6");
  await using second = await stage.startSynced();
  const [, count] = await second.waitForLog(
    /INFO read the table back, and wrote what differed operations=(\d+)/,
  );
  assertEquals(Number(count) < 50, true, count);
  await stage.tableBecomesExpected(second);
});

const REPAIRS = "signpost_drift_repairs_total";

test("clients of session affinity stay on their endpoints over a restart", async () => {
  await using stage = await Stage.create({
    objects: both((a) => [
      service(a, {
        name: `web${a.family}`,
        spec: {
          sessionAffinity: "ClientIP",
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 3600 } },
        },
      }),
      slice(a, ENDPOINT_HOSTS, { service: `web${a.family}` }),
    ]),
  });
  const endpoints = async () => {
    const clients = ["pod", "client", "client2"].flatMap((from) =>
      ([4, 6] as const).map((family) => ({ from, address: ADDRESSES[family].clusterIP }))
    );
    return await Promise.all(clients.map(async ({ from, address }) => {
      const outcomes = await stage.network.connect({ from, address, port: PORT, times: 12 });
      const hosts = outcomes.map((each) => each.type === "answer" ? each.answer.host : each.type);
      return `${from} ${address}: ${[...new Set(hosts)].join(", ")}`;
    }));
  };
  await using first = await stage.startSynced();
  const before = await endpoints();
  assertEquals(before.filter((line) => line.includes(",")), []);
  await first.stop();
  assertEquals(await endpoints(), before);
  await using second = await stage.startSynced();
  assertEquals(await endpoints(), before);
  // Nor does a repair or any later replacement make them move.
  await stage.network.run(NODE, ["nft", "flush", "map", "inet", "signpost", "services4"]);
  await second.until("the drift to be noticed", async () => await stage.metric(REPAIRS) === 1);
  // It is counted when it is noticed, a moment before the map is filled again.
  await second.until("the repair", async () => {
    assertEquals(await endpoints(), before);
    return true;
  });
  await stage.network.run(NODE, ["nft", "add", "counter", "inet", "signpost", "foreign"]);
  await second.until("the replacement", () => syncs(second, "full") === 2);
  assertEquals(await endpoints(), before);
});

/** The cluster IP and the node port of each family. */
function targets(): { readonly address: string; readonly port: number }[] {
  return ([4, 6] as const).flatMap((family) => [
    { address: ADDRESSES[family].clusterIP, port: PORT },
    { address: ADDRESSES[family].node, port: NODE_PORT },
  ]);
}
