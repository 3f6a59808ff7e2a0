import { assertEquals } from "@std/assert";
import { encodeObject } from "../../lib/source/objects/tables.ts";
import { unsupportedLine } from "../../lib/model/kernel/traits.ts";
import type { Scheduler, SchedulerDefaults } from "../../lib/model/cluster/scheduler.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { Pipeline, type PipelineOptions } from "../support/pipeline.ts";
import { service, slice } from "./objects.ts";

interface Asking {
  readonly annotations?: Readonly<Record<string, unknown>>;
  readonly defaults?: Partial<SchedulerDefaults>;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly options?: PipelineOptions;
}

function pipelineOf({ annotations = {}, defaults = {}, spec = {}, options = {} }: Asking) {
  const signpost = { ...DEFAULTS.signpost, ...defaults };
  const pipeline = new Pipeline({ ...options, configuration: { signpost } });
  pipeline.load([service("web", { metadata: { annotations }, ...spec })]
    .concat(slice("web", ["10.244.0.1"])));
  return pipeline;
}

function schedulerOf(asking: Asking): Scheduler | undefined {
  return pipelineOf(asking).desired.services.get("default/web")?.[0]?.scheduler;
}

const SCHEDULER = "signpost.dev/scheduler";
const HASH = "signpost.dev/hash";
const HASHED = { type: "consistent-hash", hash: "source", tableSize: 251 } as const;

Deno.test("a Service has the scheduler of the configuration where it does not say", () => {
  assertEquals(schedulerOf({}), undefined);
  assertEquals(schedulerOf({ defaults: { scheduler: "round-robin" } }), { type: "round-robin" });
  const defaults = { scheduler: "consistent-hash", hash: "source-and-port", hashTableSize: 11 };
  assertEquals(schedulerOf({ defaults: defaults as Partial<SchedulerDefaults> }), {
    type: "consistent-hash",
    hash: "source-and-port",
    tableSize: 11,
  });
});

Deno.test("annotations win over the configuration, each by itself", () => {
  const defaults = { scheduler: "round-robin" } as const;
  assertEquals(schedulerOf({ annotations: { [SCHEDULER]: "random" }, defaults }), undefined);
  assertEquals(schedulerOf({ annotations: { [SCHEDULER]: "consistent-hash" }, defaults }), HASHED);
  assertEquals(
    schedulerOf({
      annotations: { [HASH]: "source-and-port" },
      defaults: { scheduler: "consistent-hash" },
    }),
    { ...HASHED, hash: "source-and-port" },
  );
});

for (const value of ["rr", "Random", 7, ["random"], { a: 1 }, "x".repeat(10_000)]) {
  Deno.test(`an annotation ${JSON.stringify(value).slice(0, 20)} is left out`, () => {
    const asking = { annotations: { [SCHEDULER]: value, [HASH]: "source-and-port" } };
    const pipeline = pipelineOf({ ...asking, defaults: { scheduler: "consistent-hash" } });
    const hashed = { ...HASHED, hash: "source-and-port" };
    assertEquals(pipeline.desired.services.get("default/web")?.[0]?.scheduler, hashed);
    const { omitted = [] } = pipeline.cache.services.get("default/web") ?? {};
    assertEquals(omitted.length, 1);
    assertEquals(omitted[0]?.startsWith(`metadata.annotations["${SCHEDULER}"] must be `), true);
  });
}

Deno.test("the saved state keeps what a Service asks for", () => {
  const pipeline = pipelineOf({ annotations: { [SCHEDULER]: "round-robin" } });
  const web = pipeline.cache.services.get("default/web");
  if (!web) throw new Error("no Service");
  const again = new Pipeline({});
  again.load([JSON.parse(JSON.stringify(encodeObject("Service", web)))]);
  assertEquals(again.cache.services.get("default/web"), web);
});

Deno.test("session affinity wins: a new client's endpoint is picked at random", () => {
  const annotations = { [SCHEDULER]: "consistent-hash" };
  assertEquals(schedulerOf({ annotations, spec: { sessionAffinity: "ClientIP" } }), undefined);
});

Deno.test("connections are spread at random where hashing is refused", () => {
  const refusedFeatures = new Map([["hash", "nft 1.0.6 refuses it"]] as const);
  const pipeline = pipelineOf({
    annotations: { [SCHEDULER]: "consistent-hash" },
    options: { refusedFeatures },
  });
  const [port] = pipeline.desired.services.get("default/web") ?? [];
  assertEquals([port?.scheduler, port?.clusterEndpoints.length], [undefined, 1]);
  assertEquals(pipeline.desired.unsupported().map(({ service }) => service), ["default/web"]);
});

Deno.test("iptables mode has no hashing, on any node", () => {
  const pipeline = pipelineOf({
    annotations: { [SCHEDULER]: "consistent-hash" },
    options: { mode: "iptables" },
  });
  assertEquals(pipeline.desired.services.get("default/web")?.[0]?.scheduler, undefined);
  assertEquals(pipeline.desired.unsupported().map(unsupportedLine), [
    "Service default/web is served in part: its endpoints are picked at random, " +
    "since they cannot be picked by a hash: iptables cannot, nftables can",
  ]);
});
