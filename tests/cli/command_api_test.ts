import { assertEquals, assertMatch } from "@std/assert";
import type { ProcessRunner } from "../../lib/model/ports/ports.ts";
import { SystemClock } from "../../lib/system/clock.ts";
import { ApiServer } from "../support/api_server.ts";
import type { ApiObject } from "../support/api_store.ts";
import { CLUSTER, endpoint, LOCAL, REMOTE, slice, web } from "../explain/cluster.ts";
import { runLine, withManifest } from "./runtime.ts";
import { service } from "../support/cluster.ts";

const OBJECTS = [
  ...CLUSTER,
  web(),
  slice([LOCAL, REMOTE]),
  web({ clusterIP: "None" }, { metadata: { namespace: "shop", name: "headless" } }),
  web({ clusterIP: "10.96.0.12" }, {
    metadata: {
      namespace: "shop",
      name: "other",
      labels: { "service.kubernetes.io/service-proxy-name": "mine" },
    },
  }),
].map((object) => ({ apiVersion: "v1", ...object })) as unknown as readonly ApiObject[];

const LOCKED_UP: ProcessRunner = {
  run: () => Promise.resolve({ code: 1, stdout: "", stderr: "Error: Operation not permitted" }),
};

/** An API server with a Service that works and a headless one. */
async function startServer(): Promise<ApiServer & AsyncDisposable> {
  const server = new ApiServer();
  for (const object of OBJECTS) server.store.put(object);
  await server.start();
  return Object.assign(server, { [Symbol.asyncDispose]: () => server.stop() });
}

/** Runs signpost with the server, on a node whose kernel may not be read. */
function signpost(server: ApiServer, ...argv: readonly string[]) {
  return runOnNode([
    ...argv,
    ...["--master", server.url, "--proxy-mode=nftables", "--hostname-override=node-1"],
    "--cluster-cidr=10.244.0.0/16",
  ]);
}

async function runOnNode(argv: readonly string[]) {
  const changes = { clock: new SystemClock(), runner: LOCKED_UP, addresses: () => [] };
  const { code, printed, complaints } = await runLine(argv, changes);
  return { code, printed: printed.join(""), complaints };
}

Deno.test("objects mean the same in protobuf and in JSON", async () => {
  const protobuf = "application/vnd.kubernetes.protobuf";
  const once = async (...argv: readonly string[]) => {
    await using server = await startServer();
    const { code, printed } = await signpost(server, "--once", ...argv);
    assertEquals(code, 0);
    const accepts = new Set(server.requests.map(({ headers }) => headers["accept"]));
    return { printed, accepts: [...accepts] };
  };
  const byDefault = await once();
  assertEquals(byDefault.accepts, [`${protobuf}, application/json`]);
  const wished = await once("--kube-api-content-type", "application/json");
  assertEquals(wished, { printed: byDefault.printed, accepts: ["application/json"] });
});

Deno.test("explain asks the API server, for Services that it does not list, too", async () => {
  await using server = await startServer();
  const works = await signpost(server, "explain", "shop/web", "-o", "json");
  assertEquals([works.code, JSON.parse(works.printed).verdict], [0, "delivered"]);
  const headless = await signpost(server, "explain", "shop/headless", "-o", "json");
  const report = JSON.parse(headless.printed);
  assertEquals([headless.code, report.verdict, report.findings[0].code], [
    0,
    "not-proxied",
    "headless",
  ]);
  // The server leaves these out of the lists of a proxy.
  const other = await signpost(server, "explain", "shop/other", "-o", "json");
  assertEquals(JSON.parse(other.printed).findings[0].code, "other-proxy");
  const missing = await signpost(server, "explain", "shop/nobody");
  assertEquals(missing.code, 1);
});

Deno.test("explain reads the objects once, if it is given only the name of the Service, too", async () => {
  await using server = await startServer();
  const ask = async (name: string) => {
    const before = server.requests.length;
    const { printed } = await signpost(server, "explain", name, "-o", "json");
    const requests = server.requests.slice(before);
    const { service, selector } = JSON.parse(printed);
    const lists = requests.filter(({ path }) => path === "/api/v1/services").length;
    return { service, selector, lists };
  };
  const expected = { service: "shop/web", selector: "app=web", lists: 1 };
  assertEquals(await ask("shop/web"), expected);
  assertEquals(await ask("web"), expected);
});

Deno.test("explain refuses an object whose namespace is not text", async () => {
  const bad = web({}, { metadata: { name: "bad", namespace: { toString: 1 } } });
  const objects = [
    ...[...CLUSTER, bad, web()].map((object) => ({ apiVersion: "v1", ...object })),
    { apiVersion: "discovery.k8s.io/v1", ...slice([LOCAL]) },
  ];
  await withManifest(objects, async (path) => {
    const { code, printed, complaints } = await runOnNode([
      ...["explain", "shop/web", "-o", "json", "--manifests", path],
      ...["--proxy-mode=nftables", "--hostname-override=node-1"],
    ]);
    assertEquals(complaints, []);
    const { service, selector } = JSON.parse(printed);
    assertEquals([code, service, selector], [0, "shop/web", "app=web"]);
  });
});

Deno.test("diff lays manifests over the objects of the API server", async () => {
  await using server = await startServer();
  // A manifest as people write it: without the cluster IP.
  const manifest = service({
    namespace: "shop",
    clusterIP: undefined,
    type: "ClusterIP",
    ports: [{ name: "http", port: 81, targetPort: "web" }],
  });
  const { code, printed } = await withManifest(
    [manifest],
    (path) => signpost(server, "diff", "--manifests", path, "-o", "json"),
  );
  const { against, objects, changes, warnings } = JSON.parse(printed);
  assertEquals([code, against, objects, warnings], [1, "api", ["Service shop/web"], []]);
  const keys = changes.map((each: Record<string, string>) => `${each["change"]} ${each["key"]}`);
  assertEquals(keys.sort(), [
    "add 10.96.0.10 . 81 . 0",
    "add 10.96.0.10 . 81 . 1",
    "add 10.96.0.10 . tcp . 81",
    "delete 10.96.0.10 . 80 . 0",
    "delete 10.96.0.10 . 80 . 1",
    "delete 10.96.0.10 . tcp . 80",
  ]);
});

Deno.test("diff warns of a Service without an address", async () => {
  await using server = await startServer();
  const fresh = service({ namespace: "shop", name: "fresh", clusterIP: undefined });
  const bad = slice([endpoint("10.244.0.11", "node-1")], { ports: 80 });
  const shown = { clusterIP: "10.96.0.99", externalIPs: [""] };
  const partlyBad = service({ namespace: "shop", name: "partly", ...shown });
  const { code, printed } = await withManifest(
    [fresh, bad, partlyBad],
    (path) => signpost(server, "diff", path, "-o", "json"),
  );
  const { warnings } = JSON.parse(printed) as { readonly warnings: readonly string[] };
  assertEquals([code, warnings.map((line) => line.replace(/\(\S+\.json:1\)/, "(FILE:1)"))], [1, [
    'a part of Service shop/partly would be left out: spec.externalIPs[0] must be an IP address, is ""',
    "EndpointSlice shop/web-1 would be refused: ports must be a list, is 80 (FILE:1)",
    "Service shop/fresh has no cluster IP yet: the API server gives it one when it is applied",
  ]]);
});

Deno.test("a file that is not there is one line and exit code 2", async () => {
  await using server = await startServer();
  const { code, printed, complaints } = await signpost(server, "diff", "/nowhere.yaml");
  assertEquals([code, printed, complaints.length], [2, "", 1]);
});

Deno.test("an API server that does not answer is one line, with the reason", async () => {
  await using server = await startServer();
  await server.stop();
  const { code, complaints } = await signpost(server, "explain", "shop/web", "--timeout", "1s");
  assertEquals([code, complaints.length], [2, 1], complaints.join("\n"));
  assertMatch(complaints[0] ?? "", /the full state within 1 s: .*refused/);
});
