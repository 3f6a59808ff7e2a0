import { assertEquals } from "@std/assert";
import { ObjectCache } from "../../../lib/cache/cache.ts";
import { openStateFile } from "../../../lib/daemon/objects/saved_state.ts";
import { writeStateFile } from "../../../lib/system/state_file.ts";
import { ManualClock, MemoryLogger, START } from "../../support/clock_and_log.ts";
import { service, SyncFixture } from "../../sync/fixture.ts";

const NODE = "node-1";

/** Loads a state file; gives what was asked and found, and what the log says of it. */
async function load(path: string, isServed: boolean): Promise<string[]> {
  const done: string[] = [];
  const logger = new MemoryLogger();
  const { keeper, found } = await openStateFile({
    path,
    nodeName: NODE,
    foreignRules: {
      isServed: () => {
        done.push("asked for rules");
        return Promise.resolve(isServed);
      },
    },
    cache: new ObjectCache(),
    runtime: { clock: new ManualClock(START), releaseMemory: () => {} },
    logger,
    signal: new AbortController().signal,
  });
  done.push(`found ${found.type}`);
  if (found.type === "objects") {
    done.push(...found.events.flatMap(({ changes }) => [...changes.keys()]));
  }
  await keeper.stop();
  return [...done, ...logger.messages];
}

Deno.test("a state file is read where no rules serve the node", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/state`;
    assertEquals(await load(path, true), ["found nothing"]);
    await using fixture = new SyncFixture();
    fixture.deliver([service(1)]);
    await writeStateFile(fixture.cache, {
      path,
      nodeName: NODE,
      written: START,
      pause: () => Promise.resolve(),
    });
    assertEquals(await load(path, false), [
      "asked for rules",
      "found objects",
      "default/s1",
      "no rules are in the kernel: writing those of the state file",
    ]);
    assertEquals(await load(path, true), [
      "asked for rules",
      "found rules",
      "the rules in the kernel stay until the API server's lists are in",
    ]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
