import { assertEquals, assertRejects } from "@std/assert";
import { metricsServer, type MetricsServerOptions } from "../../lib/observe/endpoints.ts";
import { configuration } from "../support/configuration.ts";
import { traitsOf } from "../support/modes.ts";
import { contents, STATUS } from "./page/contents.ts";
import { ManualClock, realClock, START } from "../support/clock_and_log.ts";

const OPTIONS: MetricsServerOptions = {
  metrics: {
    render: () => Promise.resolve({ contentType: "text/plain; version=0.0.4", body: "up 1\n" }),
  },
  clock: new ManualClock(START),
  configuration: configuration({
    master: "https://user:secret@api:6443",
    metricsBindAddress: "127.0.0.1:10249",
  }),
  traits: traitsOf("nftables"),
  status: () => ({ ...STATUS, started: "today\nUp: never", portions: { done: 1, of: 2 } }),
  page: () => contents(),
};
const handler = metricsServer(OPTIONS);

Deno.test("each path of the metrics server has kube-proxy's type and body", async () => {
  const answers: Record<string, unknown> = {};
  for (const path of ["/healthz", "/metrics", "/proxyMode"]) {
    const { status, headers, body } = await handler({ method: "GET", path });
    answers[path] = [status, headers["Content-Type"], body];
  }
  assertEquals(answers, {
    "/healthz": [200, "text/plain; charset=utf-8", "ok"],
    "/metrics": [200, "text/plain; version=0.0.4", "up 1\n"],
    "/proxyMode": [200, "text/plain; charset=utf-8", "nftables"],
  });
});

Deno.test("the configuration is shown under the API group of kube-proxy", async () => {
  const { headers, body } = await handler({ method: "GET", path: "/configz" });
  const { "kubeproxy.config.k8s.io": shown, signpost } = JSON.parse(body);
  assertEquals(headers["Content-Type"], "application/json");
  assertEquals([shown.kind, shown.mode], ["KubeProxyConfiguration", "nftables"]);
  assertEquals(signpost, { minSyncPeriod: "adaptive" });
});

Deno.test("flags and status are one fact a line, without secrets", async () => {
  const lines = async (path: string) =>
    (await handler({ method: "GET", path })).body.split("\n").slice(3);
  const flags = await lines("/flagz");
  assertEquals(
    flags.find((line) => line.startsWith("master")),
    "master=https://[redacted]@api:6443",
  );
  assertEquals(
    flags.every((line) => line === "" || /^\w+=\S*$/.test(line)),
    true,
    flags.join("\n"),
  );
  const status = await lines("/statusz");
  assertEquals(status.find((line) => line.startsWith("started")), "started: today\\nUp: never");
  assertEquals(status.slice(-2), ["portions: 1 of 2", ""]);
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

Deno.test("the root is the status page", async () => {
  const { headers } = await handler({ method: "GET", path: "/" });
  assertEquals(headers["Content-Type"], "text/html; charset=utf-8");
  const { body } = await metricsServer({ ...OPTIONS, clock: realClock })({
    method: "GET",
    path: "/page.json",
    search: "?q=no-such-service",
  });
  assertEquals(JSON.parse(body).found.matches, 0);
});

Deno.test("the metrics are rendered at most once a second", async () => {
  const clock = new ManualClock(START);
  const renders: PromiseWithResolvers<void>[] = [];
  const scraped = metricsServer({
    ...OPTIONS,
    clock,
    metrics: {
      render: async () => {
        const render = Promise.withResolvers<void>();
        const body = `render ${renders.push(render)}`;
        await render.promise;
        return { contentType: "text/plain", body };
      },
    },
  });
  const ask = async () => (await scraped({ method: "GET", path: "/metrics" })).body;
  const first = [ask(), ask()];
  await clock.advance(5_000);
  first.push(ask());
  renders[0]?.resolve();
  assertEquals(await Promise.all(first), ["render 1", "render 1", "render 1"]);
  const second = ask();
  renders[1]?.resolve();
  assertEquals([await second, await ask()], ["render 2", "render 2"]);
  await clock.advance(999);
  assertEquals(await ask(), "render 2");
  await clock.advance(1);
  const third = ask();
  renders[2]?.reject(new Error("no metrics"));
  await assertRejects(() => third);
  await clock.advance(1_000);
  const fourth = ask();
  renders[3]?.resolve();
  assertEquals(await fourth, "render 4");
});

Deno.test("the status and the page are made at most once a second", async () => {
  const clock = new ManualClock(START);
  let [statuses, pages] = [0, 0];
  const served = metricsServer({
    ...OPTIONS,
    clock,
    status: () => {
      statuses++;
      return OPTIONS.status();
    },
    page: () => {
      pages++;
      return OPTIONS.page();
    },
  });
  const ask = (path: string, search = "") => served({ method: "GET", path, search });
  await Promise.all(Array.from({ length: 20 }, () => ask("/statusz")));
  const same = Array.from({ length: 20 }, () => ask("/page.json", "?q=a"));
  const other = ask("/page.json", "?q=b");
  await Promise.all(same);
  assertEquals([statuses, pages], [1, 1]);
  await clock.advance(1_000);
  await Promise.all([other, ask("/statusz")]);
  assertEquals([statuses, pages], [2, 2]);
});

Deno.test("configuration, flags and status are not for a foreign name that leads here", async () => {
  const status = async (path: string, host: string, asked = handler) =>
    (await asked({ method: "GET", path, host })).status;
  const foreign = "evil.example:10249";
  for (const path of ["/configz", "/flagz", "/statusz"]) {
    assertEquals(await status(path, foreign), 403, path);
    for (const host of ["localhost:8080", "127.0.0.1:10249", "[::1]:10249", "192.0.2.1", ""]) {
      assertEquals(await status(path, host), 200, `${host}${path}`);
    }
    assertEquals(
      await status(
        path,
        foreign,
        metricsServer({
          ...OPTIONS,
          configuration: configuration({
            signpost: { ...OPTIONS.configuration.signpost, statusPage: "on" },
          }),
        }),
      ),
      200,
    );
  }
  for (const path of ["/metrics", "/healthz", "/proxyMode"]) {
    assertEquals(await status(path, foreign), 200, path);
  }
});
