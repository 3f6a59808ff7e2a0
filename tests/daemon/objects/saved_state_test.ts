import { assertEquals } from "@std/assert";
import { restore } from "../../../lib/daemon/objects/saved_state.ts";
import { writeStateFile } from "../../../lib/system/state_file.ts";
import type { Source } from "../../../lib/daemon/objects/source.ts";
import { configuration, DEFAULTS } from "../../support/configuration.ts";
import { fakeBackend } from "../../support/fake_backend.ts";
import { newParts } from "../parts.ts";
import { MemoryLogger, START } from "../../support/clock_and_log.ts";
import { makeFolder } from "../../support/folder.ts";
import { service, SyncFixture } from "../../sync/fixture.ts";

const NODE = "node-1";

/** Loads a state file. */
async function loadParts(path: string, isServed: boolean) {
  const done: string[] = [];
  const logger = new MemoryLogger();
  const backend = fakeBackend();
  backend.foreignRules.isServed = () => {
    done.push("asked for rules");
    return Promise.resolve(isServed);
  };
  const api = { url: new URL("https://192.0.2.1"), warnings: [] } as unknown as Source["api"];
  const parts = newParts({
    configuration: configuration({ signpost: { ...DEFAULTS.signpost, stateFile: path } }),
    nodeName: NODE,
    logger,
    backend,
    source: { api, run: () => Promise.resolve() },
  });
  await restore(parts);
  return { parts, done, logger };
}

/** Loads a state file; gives what was asked and found, and what the log says of it. */
async function load(path: string, isServed: boolean): Promise<string[]> {
  const { parts, done, logger } = await loadParts(path, isServed);
  await parts.keeper?.stop();
  const { nodeEligible } = parts.health.report();
  return [...done, ...parts.cache.services.keys(), ...nodeEligible ? ["eligible"] : []].concat(
    logger.messages,
  );
}

Deno.test("a state file is read where no rules serve the node", async () => {
  await using folder = await makeFolder("saved-state");
  const path = `${folder.path}/state`;
  assertEquals(await load(path, true), []);
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
    "default/s1",
    "no rules are in the kernel: writing the rules of the state file",
  ]);
  assertEquals(await load(path, true), [
    "asked for rules",
    "eligible",
    "the rules in the kernel stay until the API server has sent its lists",
  ]);
});

Deno.test("the age of the snapshot is that of the file's header", async () => {
  await using folder = await makeFolder("saved-state");
  const path = `${folder.path}/state`;
  await using fixture = new SyncFixture();
  fixture.deliver([service(1)]);
  const terms = { path, written: START - 60_000, pause: () => Promise.resolve() };
  const ages = async () => {
    const loaded = [await loadParts(path, true), await loadParts(path, false)];
    return loaded.map(({ parts }) => parts.keeper?.age());
  };
  await writeStateFile(fixture.cache, { ...terms, nodeName: NODE });
  assertEquals(await ages(), [60, 60]);
  await writeStateFile(fixture.cache, { ...terms, nodeName: "another" });
  assertEquals(await ages(), [undefined, undefined]);
  await Deno.writeTextFile(path, "damaged");
  assertEquals(await ages(), [undefined, undefined]);
});
