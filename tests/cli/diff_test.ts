import { assertEquals } from "@std/assert";
import { withAllocatedFields } from "../../lib/cli/diff.ts";
import { modelService } from "../support/cluster.ts";

const PRESENT = modelService({
  namespace: "shop",
  uid: "u-1",
  created: Date.parse("2026-01-01T00:00:00Z"),
  type: "LoadBalancer",
  clusterIPs: ["10.96.0.10"],
  loadBalancerIPs: ["192.0.2.10"],
  ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 30080 }],
  externalTrafficPolicy: "Local",
  healthCheckNodePort: 31000,
});

const MANIFEST = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { namespace: "shop", name: "web" },
  spec: { type: "LoadBalancer", ports: [{ port: 80 }, { port: 81 }] },
};

Deno.test("what only the API server gives is kept: addresses, node ports, age", () => {
  assertEquals(withAllocatedFields(MANIFEST, PRESENT), {
    ...MANIFEST,
    metadata: {
      namespace: "shop",
      name: "web",
      creationTimestamp: "2026-01-01T00:00:00.000Z",
      uid: "u-1",
    },
    spec: {
      type: "LoadBalancer",
      clusterIP: "10.96.0.10",
      clusterIPs: ["10.96.0.10"],
      ports: [{ port: 80, nodePort: 30080 }, { port: 81 }],
      healthCheckNodePort: 31000,
    },
    status: { loadBalancer: { ingress: [{ ip: "192.0.2.10" }] } },
  });
});

Deno.test("what the manifest says itself counts", () => {
  const spec = {
    type: "LoadBalancer",
    clusterIP: "10.96.0.99",
    ports: [{ port: 80, nodePort: 30099 }],
    healthCheckNodePort: 31099,
  };
  const status = { loadBalancer: {} };
  const metadata = { ...MANIFEST.metadata, creationTimestamp: "2020-01-01T00:00:00Z", uid: "u" };
  const manifest = { ...MANIFEST, spec, status, metadata };
  assertEquals(withAllocatedFields(manifest, PRESENT), manifest);
});

Deno.test("a Service that becomes headless, an alias or ClusterIP loses what it had", () => {
  const change = (spec: object) =>
    Reflect.get(
      withAllocatedFields({ ...MANIFEST, spec }, { ...PRESENT, healthCheckNodePort: 0 }) as object,
      "spec",
    );
  const ports = [{ port: 80 }];
  assertEquals(change({ clusterIP: "None", ports }), { clusterIP: "None", ports });
  assertEquals(change({ type: "ExternalName" }), { type: "ExternalName" });
  assertEquals(change({ type: "ClusterIP", ports }).ports, ports);
});

Deno.test("a new Service stays as it is", () => {
  assertEquals(withAllocatedFields(MANIFEST, undefined), MANIFEST);
  for (const raw of [null, "text", [1]]) assertEquals(withAllocatedFields(raw, PRESENT), raw);
});
