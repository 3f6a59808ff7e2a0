import { assertEquals, assertStrictEquals } from "@std/assert";
import { ObjectCache } from "../../../lib/cache/cache.ts";
import { SavedState } from "../../../lib/daemon/objects/saved_state.ts";
import { writeStateFile } from "../../../lib/system/state_file.ts";
import { ManualClock, MemoryLogger, START } from "../../support/clock_and_log.ts";
import { service, SyncFixture } from "../../sync/fixture.ts";

const NODE = "node-1";

/** Opens a state file, and tells what was asked and applied, and what the log says of it. */
async function open(
  path: string | undefined,
  { isServed = false, isTaken = true }: {
    readonly isServed?: boolean;
    readonly isTaken?: boolean;
  } = {},
): Promise<string[]> {
  const done: string[] = [];
  const logger = new MemoryLogger();
  const saved = new SavedState({
    path,
    nodeName: NODE,
    foreignRules: {
      isServedByKubeProxy: () => {
        done.push("asked for kube-proxy's rules");
        return Promise.resolve(isServed);
      },
    },
    cache: new ObjectCache(),
    runtime: { clock: new ManualClock(START), releaseMemory: () => {} },
    logger,
    signal: new AbortController().signal,
  });
  assertEquals(saved.isRestoring, path !== undefined);
  await saved.read();
  const known = saved.known("Service", "default/s1");
  if (known) done.push(`knows ${known.name}`);
  await saved.restore((objects) => {
    assertEquals(saved.isRestoring, true);
    assertStrictEquals(objects.get("Service", "default/s1"), known);
    done.push(`applied ${[...objects.services.keys()].join()}`);
    return Promise.resolve(isTaken);
  });
  assertEquals(saved.isRestoring, false);
  assertStrictEquals(saved.known("Service", "default/s1"), known);
  saved.changed();
  assertEquals(saved.known("Service", "default/s1"), undefined);
  await saved.stop();
  return [...done, ...logger.messages];
}

Deno.test("without a state file nothing is asked; kube-proxy's rules count for more than one", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/state`;
    assertEquals(await open(path), []);
    assertEquals(await open(undefined), []);
    await using fixture = new SyncFixture();
    fixture.deliver([service(1)]);
    const write = () =>
      writeStateFile(fixture.cache, {
        path,
        nodeName: NODE,
        written: START,
        pause: () => Promise.resolve(),
      });
    await write();
    const steps = ["knows s1", "asked for kube-proxy's rules", "applied default/s1"];
    assertEquals(await open(path), [
      ...steps,
      "the saved state is in the kernel until the watches have delivered",
    ]);
    await write();
    assertEquals(await open(path, { isServed: true }), [
      ...steps.slice(0, 2),
      "the saved state is not used: kube-proxy's rules are newer",
    ]);
    // The loop says why, and what comes next.
    await write();
    assertEquals(await open(path, { isTaken: false }), steps);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
