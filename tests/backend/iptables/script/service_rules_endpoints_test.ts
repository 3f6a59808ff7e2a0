import { assertEquals } from "@std/assert";
import { endpointRules } from "../../../../lib/backend/iptables/script/service_rules.ts";
import type { Scheduler } from "../../../../lib/model/cluster/scheduler.ts";
import { PROBE_SERVICES } from "../../../../lib/backend/nftables/probe.ts";
import { destination } from "../../../support/cluster.ts";

const ENDPOINTS = [1, 2, 3].map((last) => destination(`10.244.0.${last}`, { port: 80 }));

function rulesFor(scheduler?: Scheduler): readonly string[] {
  const [port] = PROBE_SERVICES;
  if (!port) throw new Error("no port");
  return endpointRules({ ...port, ...scheduler && { scheduler } }, ENDPOINTS).rules;
}

Deno.test("round-robin: one connection in as many as have come so far takes each rule", () => {
  assertEquals(rulesFor({ type: "round-robin" }), [
    "-p tcp -m statistic --mode nth --every 3 --packet 0 -j DNAT --to-destination 10.244.0.1:80",
    "-p tcp -m statistic --mode nth --every 2 --packet 0 -j DNAT --to-destination 10.244.0.2:80",
    "-p tcp -j DNAT --to-destination 10.244.0.3:80",
  ]);
});

Deno.test("iptables has no hash: endpoints are picked at random", () => {
  assertEquals(rulesFor({ type: "consistent-hash", hash: "source", tableSize: 251 }), rulesFor());
});
