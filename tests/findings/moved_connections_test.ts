import { assertEquals } from "@std/assert";
import { checkMovedConnections } from "../../lib/findings/system.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { service } from "../policy/objects.ts";
import { DEFAULTS } from "../support/configuration.ts";
import type { ApiObject } from "../support/pipeline.ts";
import { factsOf } from "./facts.ts";

const HASHED = { annotations: { "signpost.dev/scheduler": "consistent-hash" } };

function hashed(name: string, spec: Record<string, unknown>): ApiObject {
  const object = service(name, spec);
  return { ...object, metadata: { ...object.metadata, ...HASHED } };
}

function servicesOf(objects: readonly ApiObject[], tcpBeLiberal = false): readonly string[] {
  const conntrack = { ...DEFAULTS.conntrack, tcpBeLiberal };
  return atOnce(checkMovedConnections(factsOf(objects, { configuration: { conntrack } })))
    .flatMap(({ services }) => services);
}

const EXTERNAL = [
  hashed("web", { externalIPs: ["192.0.2.1"] }),
  hashed("api", { clusterIP: "10.96.0.2", externalIPs: ["192.0.2.2"] }),
];

Deno.test("Services with external addresses that are spread by a hash are one finding", () => {
  assertEquals(servicesOf(EXTERNAL).toSorted(), ["default/api", "default/web"]);
});

Deno.test("a liberal conntrack takes moved connections, so nothing is found", () => {
  assertEquals(servicesOf(EXTERNAL, true), []);
});

Deno.test("a hash without external addresses is no finding", () => {
  assertEquals(servicesOf([hashed("web", {})]), []);
});
