import { assertEquals } from "@std/assert";
import { metricsServer } from "../../lib/observe/endpoints.ts";
import { textAnswer } from "../../lib/model/ports/http.ts";

const handler = metricsServer({
  metrics: () => Promise.resolve({ contentType: "text/plain; version=0.0.4", body: "up 1\n" }),
  proxyMode: () => "nftables",
  configuration: () => ({ kind: "KubeProxyConfiguration", mode: "nftables" }),
  ownConfiguration: () => ({ minSyncPeriod: "adaptive" }),
  flags: () => ({ v: "2", master: "https://user:secret@api:6443" }),
  status: () => ({ Started: "today\nUp: never" }),
  page: ({ search = "" }) => textAnswer(`the page ${search}`),
});

Deno.test("each path of the metrics server has kube-proxy's type and body", async () => {
  const answers: Record<string, unknown> = {};
  for (const path of ["/healthz", "/metrics", "/proxyMode", "/configz"]) {
    const { status, headers, body } = await handler({ method: "GET", path });
    answers[path] = [status, headers["Content-Type"], body];
  }
  assertEquals(answers, {
    "/healthz": [200, "text/plain; charset=utf-8", "ok"],
    "/metrics": [200, "text/plain; version=0.0.4", "up 1\n"],
    "/proxyMode": [200, "text/plain; charset=utf-8", "nftables"],
    "/configz": [
      200,
      "application/json",
      '{"kubeproxy.config.k8s.io":{"kind":"KubeProxyConfiguration","mode":"nftables"},"signpost":{"minSyncPeriod":"adaptive"}}',
    ],
  });
});

Deno.test("flags and status are one fact a line, without secrets", async () => {
  const flags = await handler({ method: "GET", path: "/flagz" });
  assertEquals(flags.body.split("\n").slice(3), [
    "v=2",
    "master=https://[redacted]@api:6443",
    "",
  ]);
  const status = await handler({ method: "GET", path: "/statusz" });
  assertEquals(status.body.split("\n").slice(3), ["Started: today\\nUp: never", ""]);
});

Deno.test("other paths are not found", async () => {
  for (const path of ["/index.html", "/healthz/", "/metrics/slis", "/debug/pprof/", "/__proto__"]) {
    assertEquals((await handler({ method: "GET", path })).status, 404, path);
  }
});

Deno.test("only GET and HEAD are allowed", async () => {
  assertEquals((await handler({ method: "HEAD", path: "/healthz" })).status, 200);
  for (const method of ["POST", "PUT", "DELETE", "OPTIONS", "X"]) {
    const { status, headers } = await handler({ method, path: "/healthz" });
    assertEquals([status, headers.Allow], [405, "GET, HEAD"], method);
  }
});

Deno.test("the root is the status page, and gets the query", async () => {
  const { status, body } = await handler({ method: "GET", path: "/", search: "?q=web" });
  assertEquals({ status, body }, { status: 200, body: "the page ?q=web" });
});
