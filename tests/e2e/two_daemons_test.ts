import { assertEquals, assertMatch } from "@std/assert";
import { ADDRESSES } from "./cluster.ts";
import { HEALTH_PORT, Stage, syncs, WEB_FLOWS, WEBS } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("two daemons");

test("a second daemon ends with a line that names the first", async () => {
  await using stage = await Stage.create({ objects: WEBS });
  await using first = await stage.startSynced();
  await using second = stage.start(["--healthz-bind-address=", "--metrics-bind-address="]);
  await second.until("its end", () => second.log.includes("--wait"));
  assertMatch(
    second.log,
    /ERROR another signpost runs in this network namespace \(pid \d+, version [\d.]+, since 2\d{3}-.*Z\): stop it/,
  );
  assertEquals([syncs(second, "full"), syncs(first, "full")], [0, 1]);
  await stage.flowsBecome(first, WEB_FLOWS);
});

test("a second daemon with --wait takes over when the first ends, however that is", async (test) => {
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    await test.step(signal, async () => {
      await using stage = await Stage.create({ objects: WEBS });
      await using first = await stage.startSynced();
      await using second = stage.start(["--wait"]);
      await second.until("it waits", () => second.log.includes("waiting for its end"));
      assertEquals(syncs(second, "full"), 0);
      const ready = async () => {
        const answer = await stage.get(`/readyz?pid=${second.pid}`, HEALTH_PORT);
        return answer.status;
      };
      assertEquals(await ready(), 503);
      first.kill(signal);
      await second.until("its first sync", () => syncs(second, "full") === 1);
      await second.until("it is ready", async () => await ready().catch(() => 0) === 200);
      await stage.flowsBecome(second, WEB_FLOWS);
      assertEquals(first.log.includes("another program"), false);
    });
  }
});

test("a daemon that reads its configuration again keeps the lock", async () => {
  await using stage = await Stage.create({ objects: WEBS });
  await using first = await stage.startSynced();
  await using second = stage.start(["--wait"]);
  await second.until("it waits", () => second.log.includes("waiting for its end"));
  await stage.configure({ nodePortAddresses: [ADDRESSES[4].nodeSecondCIDR] });
  first.kill("SIGHUP");
  await first.until("another full sync", () => syncs(first, "full") === 2);
  await stage.flowsBecome(first, WEB_FLOWS);
  assertEquals(syncs(second, "full"), 0);
});
