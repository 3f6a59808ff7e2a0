import { assertEquals, assertMatch } from "@std/assert";
import type { Acceleration } from "../../lib/model/configuration.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { Pipeline, type PipelineOptions } from "../support/pipeline.ts";
import { service, slice } from "./objects.ts";

const ON: Acceleration = { interfaces: ["eth0"], packets: 20, services: "all" };

function pipelineOf(
  acceleration: Acceleration,
  annotation?: unknown,
  options: PipelineOptions = {},
): Pipeline {
  const signpost = { ...DEFAULTS.signpost, acceleration };
  const pipeline = new Pipeline({ ...options, configuration: { signpost } });
  const protocols = ["TCP", "UDP", "SCTP"];
  const annotations = annotation === undefined ? {} : { "signpost.dev/acceleration": annotation };
  const web = service("web", {
    metadata: { annotations },
    ports: protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: 80 })),
  });
  pipeline.load([web, slice("web", ["10.0.0.1"])]);
  return pipeline;
}

function acceleratedOf(...args: Parameters<typeof pipelineOf>): string[] {
  const ports = pipelineOf(...args).desired.services.get("default/web") ?? [];
  return ports.filter(({ accelerated }) => accelerated).map(({ protocol }) => protocol);
}

Deno.test("without interfaces nothing takes the fast path, whatever an annotation says", () => {
  const off = { ...ON, interfaces: [] };
  assertEquals(acceleratedOf(off, "on"), []);
  assertEquals(pipelineOf(off, "on").desired.node.acceleration, undefined);
});

Deno.test("TCP and UDP ports take the fast path, SCTP ports do not", () => {
  assertEquals(acceleratedOf(ON), ["tcp", "udp"]);
  assertEquals(pipelineOf(ON).desired.node.acceleration, { packets: 20, interfaces: ["eth0"] });
});

Deno.test("an annotation takes a Service out of the fast path", () => {
  assertEquals(acceleratedOf(ON, "off"), []);
});

Deno.test("where only annotated Services take the fast path, an annotation takes one in", () => {
  const annotated = { ...ON, services: "annotated" } as const;
  assertEquals(acceleratedOf(annotated), []);
  assertEquals(acceleratedOf(annotated, "on"), ["tcp", "udp"]);
});

Deno.test("an annotation with another value is left out", () => {
  const pipeline = pipelineOf(ON, "true");
  assertEquals(acceleratedOf(ON, "true"), ["tcp", "udp"]);
  const omitted = pipeline.cache.services.get("default/web")?.omitted ?? [];
  assertMatch(JSON.stringify(omitted), /signpost\.dev\/acceleration/);
});

Deno.test("iptables mode has no fast path", () => {
  assertEquals(acceleratedOf(ON, "on", { mode: "iptables" }), []);
  const refusedFeatures = new Map([["acceleration", "no"]] as const);
  assertEquals(acceleratedOf(ON, "on", { refusedFeatures }), []);
});
