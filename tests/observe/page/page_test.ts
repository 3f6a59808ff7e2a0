import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import { assert, assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { createHash } from "node:crypto";
import type { DesiredServicePort } from "../../../lib/model/kernel/desired.ts";
import { CONTENT_SECURITY_POLICY } from "../../../lib/observe/page/assets.ts";
import { latencyPlot } from "../../../lib/observe/page/latency_plot.ts";
import { statusPage } from "../../../lib/observe/page/page.ts";
import { routesOf } from "../../../lib/observe/page/traffic.ts";
import { trafficPicture } from "../../../lib/observe/page/traffic_picture.ts";
import { contents, endpoint, FINDING, servicePort, STATUS } from "./contents.ts";

const ALL = { words: "", page: 1, sort: "name" } as const;

Deno.test("the page tells what the status tells", () => {
  const page = atOnce(statusPage(
    contents({
      status: {
        ...STATUS,
        findings: [FINDING],
        localhostNodePorts: { listeners: 2, connections: 1 },
        refused: [{ kind: "Service", key: "shop/bad", reason: "port 0" }],
        conflicts: [{
          claim: "192.0.2.1 . tcp . 80",
          holder: "a/b",
          loser: "c/d",
          because: "which is older",
        }],
      },
    }),
    ALL,
  ));
  for (
    const text of [
      "<title>signpost on node-1</title>",
      "healthy, with 1 warning",
      FINDING.what,
      FINDING.where,
      FINDING.remedy,
      "nft 1.0.6",
      "2 listeners, 1 connection",
      "3h ago",
      "12s old",
      "4711",
      "1.25 s",
      "51 kB",
      "shop/bad",
      "port 0",
      "192.0.2.1 . tcp . 80",
      "10.96.0.10:80/tcp",
      "10.244.1.9:8080",
    ]
  ) assert(page.includes(text), text);
});

Deno.test("nothing of the page comes from elsewhere, and its own parts are named by their hash", () => {
  const page = atOnce(statusPage(contents(), ALL));
  assertNotMatch(page, /\b(?:src|href)="(?!\?)[^"]*"|@import|url\(|style="|\son\w+="/);
  for (const [tag, directive] of [["style", "style-src"], ["script", "script-src"]] as const) {
    const [, text = ""] = new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`).exec(page) ?? [];
    const hash = createHash("sha256").update(text).digest("base64");
    assert(CONTENT_SECURITY_POLICY.includes(`${directive} 'sha256-${hash}'`), tag);
  }
  assertMatch(CONTENT_SECURITY_POLICY, /^default-src 'none';/);
});

Deno.test("whatever names and messages say, they make no markup", () => {
  const evil = `"><img src=x onerror=alert(1)><script>alert(1)</script>`;
  const page = atOnce(statusPage(
    contents({
      status: {
        ...STATUS,
        node: evil,
        version: evil,
        commit: evil,
        kernel: evil,
        nft: evil,
        watches: STATUS.watches.map((watch) => ({
          ...watch,
          state: evil,
          resourceVersion: evil,
          lastError: evil,
        })),
        refused: [{ kind: "Service", key: evil, reason: evil }],
        conflicts: [{ claim: evil, holder: evil, loser: evil, because: evil }],
      },
      services: new Map([[evil, [
        servicePort({
          name: `${evil}:${evil}`,
          clusterIPs: [evil],
          clusterEndpoints: [endpoint(evil)],
        }),
      ]]]),
    }),
    { words: evil, page: 1, sort: "name" },
  ));
  assertEquals(page.match(/<script>/g)?.length, 1);
  assertNotMatch(page, /<img/);
});

Deno.test("secrets in the messages of watches are not shown", () => {
  const watches = STATUS.watches.map((watch) => ({
    ...watch,
    lastError: "Authorization: Bearer abcdef.ghijkl.mnopqr refused",
  }));
  assertNotMatch(
    atOnce(statusPage(contents({ status: { ...STATUS, watches } }), ALL)),
    /abcdef\.ghijkl/,
  );
});

Deno.test("a page of many has links to its neighbours that keep the search", () => {
  const services = new Map(
    Array.from({ length: 45 }, (_, i) => [`a&b/s${i}`, [servicePort()]] as const),
  );
  const page = atOnce(
    statusPage(contents({ services }), { words: "a&b", page: 2, sort: "connections" }),
  );
  assertMatch(page, /href="\?q=a%26b&amp;sort=connections"/);
  assertMatch(page, /href="\?q=a%26b&amp;sort=connections&amp;page=3"/);
});

Deno.test("each Service has its connections, in all and by second", () => {
  const services = new Map([["shop/web", [servicePort()]], ["shop/idle", [servicePort()]]]);
  const row = { namespace: "shop", service: "web", port: 80, protocol: "tcp" } as const;
  const page = atOnce(statusPage(
    contents({
      services,
      connections: [
        { ...row, frontend: "clusterIP", connections: 4000, perSecond: 20 },
        { ...row, frontend: "nodePort", connections: 560, perSecond: 3.2 },
      ],
    }),
    { ...ALL, sort: "connections" },
  ));
  assertMatch(page, /<b>23<\/b>\/s <span class="soft">4,560 connections/);
  assertEquals(page.match(/class="load"/g)?.length, 1);
  assert(page.indexOf("<h3>shop/web</h3>") < page.indexOf("<h3>shop/idle</h3>"));
  assertMatch(page, /<option value="connections" selected>/);
});

Deno.test("traffic goes by the policy of its frontend", () => {
  const routes = (changes: Partial<DesiredServicePort>) =>
    routesOf(servicePort({ nodePort: 30080, loadBalancerIPs: ["192.0.2.7"], ...changes }))
      .map(({ policy, frontends, endpoints, refusal }) =>
        `${policy}: ${frontends.map(({ text }) => text).join(" ")} > ${
          endpoints.map(({ address }) => address).join(" ") || refusal
        }`
      );
  const frontends = "10.96.0.10:80/tcp 192.0.2.7:80/tcp node:30080/tcp";
  assertEquals(routes({}), [`Cluster: ${frontends} > 10.244.0.7 10.244.1.9`]);
  assertEquals(
    routes({ externalTrafficPolicy: "Local", localEndpoints: [endpoint("10.244.0.7", true)] }),
    [
      "Cluster: 10.96.0.10:80/tcp > 10.244.0.7 10.244.1.9",
      "Local: 192.0.2.7:80/tcp node:30080/tcp > 10.244.0.7",
    ],
  );
  assertEquals(routes({ externalTrafficPolicy: "Local" }), [
    "Cluster: 10.96.0.10:80/tcp > 10.244.0.7 10.244.1.9",
    "Local: 192.0.2.7:80/tcp node:30080/tcp > dropped",
  ]);
  assertEquals(routes({ clusterEndpoints: [], hasEndpoints: false }), [
    `Cluster: ${frontends} > rejected`,
  ]);
  assertEquals(routesOf(servicePort({ clusterIPs: [] })), []);
});

Deno.test("a picture has room for some endpoints and counts the others", () => {
  const clusterEndpoints = Array.from({ length: 40 }, (_, i) => endpoint(`10.244.1.${i}`));
  const picture = trafficPicture("shop/web", [servicePort({ clusterEndpoints })])?.toString() ?? "";
  assertMatch(picture, />40</);
  assertMatch(picture, /and 33 more/);
  assertEquals(picture.match(/class="there"/g)?.length, 7);
  assertEquals(trafficPicture("shop/web", [servicePort({ clusterIPs: [] })]), undefined);
});

Deno.test("the plot has a sign for every span, whatever the numbers", () => {
  const span = { age: 100, count: 3, least: 0.01, mean: 0.02, most: 0.05 };
  const plot = latencyPlot([
    { ...span, kind: "partial" },
    { ...span, kind: "partial", age: 0, least: 0, mean: 0, most: 0, count: 1 },
    { ...span, kind: "full", age: 3599, least: 120, mean: 120, most: 120, count: 1 },
  ]).toString();
  assertEquals(plot.match(/<title>/g)?.length, 3);
  assertMatch(plot, /3 partial syncs: 10 ms to 50 ms, mean 20 ms/);
  assertNotMatch(plot, /NaN|Infinity|undefined/);
  assertMatch(latencyPlot([]).toString(), /no sync in the last hour/);
});
