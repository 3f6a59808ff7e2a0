/** The contract of backends: the cases that each of them must pass. */
import type { ServiceDifference } from "../../lib/model/kernel/differences.ts";
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { DesiredState } from "../../lib/model/kernel/desired.ts";
import { ApplyError } from "../../lib/model/kernel/dataplane.ts";
import { frontendsOf } from "../../lib/policy/frontend.ts";
import { eventually } from "../support/eventually.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { LOCAL, REMOTE, slice, web } from "../explain/cluster.ts";
import type { Stage } from "./contract_stage.ts";

const OTHER: readonly ApiObject[] = [
  web({ name: "other", clusterIP: "10.96.0.11", ports: [{ name: "http", port: 80 }] }),
  slice([REMOTE], { service: "other" }),
];
const BEFORE: readonly ApiObject[] = [web(), slice([LOCAL, REMOTE]), ...OTHER];
const AFTER: readonly ApiObject[] = [web({ externalIPs: ["192.0.2.30"] }), slice([REMOTE])];

/** A backend that has some objects' rules in its kernel. */
export async function applied(
  { backend }: Stage,
  objects: readonly ApiObject[] = BEFORE,
): Promise<Pipeline> {
  await backend.probe();
  const pipeline = new Pipeline({ mode: backend.traits.name });
  await pipeline.apply(backend.dataplane, objects);
  return pipeline;
}

export async function differences(
  { backend }: Stage,
  state: DesiredState,
): Promise<readonly ServiceDifference[]> {
  return (await backend.rules.read()).compare(state).differences;
}

/** By what they show, the cases. */
const CASES: Readonly<Record<string, (stage: Stage) => Promise<void> | void>> = {
  "a probe tells the version and writes nothing": async ({ backend }) => {
    const { version, missing, refusedFeatures } = await backend.probe();
    assertMatch(version, /\d\.\d/);
    assertEquals([missing.size, refusedFeatures.size], [0, 0]);
    assertEquals((await backend.rules.read()).isEmpty, true);
  },

  "what was applied is read back": async (stage) => {
    const { desired } = await applied(stage);
    const rules = await stage.backend.rules.read();
    const { differences, compared } = rules.compare(desired);
    assertEquals([rules.isEmpty, differences, compared > 0], [false, [], true]);
    const ports = desired.services.get("shop/web") ?? [];
    const entries = rules.entries(ports, desired.node);
    assertEquals(entries.length > 0, true);
    assertEquals(entries.filter(({ state }) => state !== "same"), []);
  },

  "full and then partial is the same as full": async (stage) => {
    const { backend } = stage;
    const pipeline = await applied(stage);
    const script = pipeline.step(backend.dataplane, AFTER);
    assertEquals(script.kind, "partial");
    await backend.dataplane.apply(script);
    assertEquals(await differences(stage, pipeline.desired), []);
    const byParts = await stage.dump();
    await backend.dataplane.apply(backend.dataplane.full(pipeline.desired));
    assertEquals(byParts, await stage.dump());
  },

  "a script that is refused leaves what was there": async (stage) => {
    const { backend } = stage;
    const pipeline = await applied(stage);
    const before = await stage.dump();
    const partial = pipeline.step(backend.dataplane, AFTER);
    stage.refuses = true;
    for (const script of [partial, backend.dataplane.full(pipeline.desired)]) {
      await assertRejects(() => backend.dataplane.apply(script), ApplyError);
      assertEquals(await stage.dump(), before);
    }
    stage.refuses = false;
    await backend.dataplane.apply(backend.dataplane.full(pipeline.desired));
    assertEquals(await differences(stage, pipeline.desired), []);
  },

  "what another program deletes differs, and has its Service's name": async (stage) => {
    const { desired } = await applied(stage);
    await stage.deleteRule();
    const rules = await stage.backend.rules.read();
    const [first, ...more] = rules.compare(desired).differences;
    assertEquals([first?.type, more], ["missing", []]);
    assertMatch(first?.service ?? "", /^shop\/web\b/);
    const entries = rules.entries(desired.services.get("shop/web") ?? [], desired.node);
    assertEquals(entries.filter(({ state }) => state !== "same"), entries.slice(0, 1));
  },

  "what is noticed is repaired": async (stage) => {
    const { backend } = stage;
    const { desired } = await applied(stage);
    const before = await stage.dump();
    const stop = new AbortController();
    let drifts = 0;
    const watching = backend.dataplane.watchDrift({
      desired,
      onDrift: () => drifts++,
      onChange: () => {},
      signal: stop.signal,
    });
    for (const remove of [() => stage.deleteRule(), () => stage.deleteAll()]) {
      // The watch does not say from when on it follows.
      await eventually("drift", async () => {
        await backend.dataplane.apply(backend.dataplane.full(desired));
        drifts = 0;
        await remove();
        return await eventually("a report", () => drifts > 0, { deadline: 1_000 });
      });
      assert((await differences(stage, desired)).length > 0);
      await backend.dataplane.apply(
        await backend.dataplane.repair(desired) ?? backend.dataplane.full(desired),
      );
      assertEquals(await differences(stage, desired), []);
      assertEquals(await stage.dump(), before);
    }
    stop.abort();
    await watching;
  },

  "the rule that delivers is named as the kernel has it": async (stage) => {
    const { desired } = await applied(stage);
    const rules = await stage.backend.rules.read();
    const names = stage.backend.rules.describe(desired.node);
    for (const servicePort of desired.services.get("shop/web") ?? []) {
      const entries = rules.entries([servicePort], desired.node);
      for (const frontend of frontendsOf(servicePort)) {
        const name = names.delivers({ servicePort, frontend });
        const isThere = entries.some((each) =>
          each.key !== "" && name.includes(each.in) && name.includes(each.key)
        );
        assert(isThere, `${name} in ${JSON.stringify(entries)}`);
      }
    }
  },

  "a step is the changes that it makes, and none where nothing changes": ({ backend }) => {
    const pipeline = new Pipeline({ mode: backend.traits.name });
    pipeline.load(BEFORE);
    const changesOf = backend.rules.changesFrom(pipeline.desired);
    const step = (objects: readonly ApiObject[]) => {
      const { change } = pipeline.load(objects);
      return changesOf({ change, node: pipeline.desired.node });
    };
    assertEquals(step(BEFORE), []);
    const changes = step(AFTER);
    assertEquals(new Set(changes.map(({ change }) => change)), new Set(["delete", "add"]));
  },

  "without kube-proxy our rules serve the node, and there are no foreign ones": async (stage) => {
    const { foreignRules } = stage.backend;
    assertEquals(await foreignRules.isServed(), false);
    await applied(stage);
    assertEquals(await foreignRules.isServed(), true);
    await foreignRules.run({
      period: 0,
      requestFull: () => {},
      looked: () => {},
      signal: AbortSignal.abort(),
    });
    assertEquals(await foreignRules.findProxy(), []);
    assertEquals(foreignRules.rival, undefined);
  },
};

/** Makes the tests of a backend. */
export function testBackend(name: string, open: () => Promise<Stage>): void {
  for (const [what, test] of Object.entries(CASES)) {
    Deno.test(`${name}: ${what}`, async () => {
      await using stage = await open();
      await test(stage);
    });
  }
}
