import { assertEquals } from "@std/assert";
import { countReadyLocalEndpoints } from "../../lib/policy/health_check.ts";
import type { Endpoint, EndpointSlice } from "../../lib/model/objects.ts";

function slice(endpoints: readonly Partial<Endpoint>[]): EndpointSlice {
  return {
    namespace: "default",
    name: "web-1",
    serviceName: "web",
    family: 4,
    ports: [],
    endpoints: endpoints.map((each) => ({
      address: "10.0.0.1",
      nodeName: "here",
      ready: true,
      serving: true,
      terminating: false,
      zoneHints: [],
      nodeHints: [],
      ...each,
    })),
    lastChangeTriggerTime: 0,
  };
}

Deno.test("the health check counts distinct addresses of ready endpoints on this node", () => {
  const slices = [
    slice([{}, { address: "10.0.0.2" }, { address: "10.0.0.3", nodeName: "elsewhere" }]),
    slice([{}, { address: "10.0.0.4", nodeName: undefined }, {
      address: "10.0.0.5",
      ready: false,
      terminating: true,
    }]),
  ];
  assertEquals(countReadyLocalEndpoints(slices, "here"), 2);
  assertEquals(countReadyLocalEndpoints([], "here"), 0);
});
