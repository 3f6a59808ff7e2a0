import { assertEquals } from "@std/assert";
import { ObjectCache } from "../../../lib/cache/cache.ts";
import { openSavedState } from "../../../lib/daemon/objects/saved_state.ts";
import { writeStateFile } from "../../../lib/system/state_file.ts";
import { ManualClock, MemoryLogger, START } from "../../support/clock_and_log.ts";
import { service, SyncFixture } from "../../sync/fixture.ts";

const NODE = "node-1";

/** Opens a state file, and tells what was asked and applied, and what the log says of it. */
async function open(
  path: string,
  { isServed = false, isTaken = true }: {
    readonly isServed?: boolean;
    readonly isTaken?: boolean;
  } = {},
): Promise<string[]> {
  const done: string[] = [];
  const logger = new MemoryLogger();
  const keeper = await openSavedState({
    path,
    nodeName: NODE,
    foreignRules: {
      isServedByKubeProxy: () => {
        done.push("asked for kube-proxy's rules");
        return Promise.resolve(isServed);
      },
    },
    cache: new ObjectCache(),
    seed: ({ services }) => {
      done.push(`applied ${[...services.keys()].join()}`);
      return Promise.resolve(isTaken);
    },
    runtime: { clock: new ManualClock(START), releaseMemory: () => {} },
    logger,
    signal: new AbortController().signal,
  });
  await keeper.stop();
  return [...done, ...logger.messages];
}

Deno.test("without a state file nothing is asked; kube-proxy's rules count for more than one", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/state`;
    assertEquals(await open(path), []);
    await using fixture = new SyncFixture();
    fixture.deliver([service(1)]);
    await writeStateFile(fixture.cache, {
      path,
      nodeName: NODE,
      written: START,
      pause: () => Promise.resolve(),
    });
    const [asked, applied] = ["asked for kube-proxy's rules", "applied default/s1"];
    assertEquals(await open(path), [
      asked,
      applied,
      "the saved state is in the kernel until the watches have delivered",
    ]);
    assertEquals(await open(path, { isServed: true }), [
      asked,
      "the saved state is not used: kube-proxy's rules are newer",
    ]);
    // The loop says why, and what comes next.
    assertEquals(await open(path, { isTaken: false }), [asked, applied]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
