/**
 * Clients that use up what an HTTP server has: health probes, and other Services, must not notice.
 */
import { assertEquals, assertLessOrEqual } from "@std/assert";
import { Background } from "../../support/background.ts";
import { run } from "../../support/command.ts";
import { httpGet } from "../../support/http.ts";
import { signpostCommand } from "../../support/signpost.ts";
import { NODE } from "../../support/topology.ts";
import { ADDRESSES, type EndpointHost, service, slice } from "../cluster.ts";
import { residentMemory, startAttack } from "./attacks.ts";
import { HEALTH_PORT, METRICS_PORT, Stage, syncs } from "../stage.ts";

const a = ADDRESSES[4];
const CHECK_PORT = 32_000;
const PEER_PORT = 20_256;
const PROBES = 5;

const OBJECTS = [
  service(a),
  slice(a, ["local1"]),
  service(a, {
    name: "balanced",
    spec: {
      clusterIP: a.clusterIP2,
      type: "LoadBalancer",
      externalTrafficPolicy: "Local",
      healthCheckNodePort: CHECK_PORT,
    },
    ingress: [{ ip: a.loadBalancer }],
  }),
  slice(a, ["local1"], { service: "balanced" }),
];

/** Has a program open so many files at most. */
function withDescriptors(count: number, command: readonly string[]): string[] {
  return ["sh", "-c", `ulimit -n ${count}; exec "$@"`, "sh", ...command];
}

/** Connects so many clients from a pod of the node; see `http_clients_main.ts`. */
function attack(
  stage: Stage,
  connections: number,
  port: number,
  how: readonly string[] = ["idle"],
): Background {
  return startAttack(stage, { from: "pod", connections, to: `${a.node}:${port}`, how });
}

/** Asks as a kubelet or a load balancer does: by a new connection each time. */
async function probe(stage: Stage, port: number): Promise<boolean> {
  const where = { from: "client", address: a.node, port, path: "/livez", timeout: 3_000 };
  return await httpGet(stage.network, where).then(({ status }) => status === 200, () => false);
}

async function failedProbes(stage: Stage, port: number): Promise<number> {
  const probes = await Promise.all(Array.from({ length: PROBES }, () => probe(stage, port)));
  return probes.filter((isAnswered) => !isAnswered).length;
}

/** Changes an endpoint, and waits until packets go there. */
async function changes(
  stage: Stage,
  signpost: Parameters<Stage["flowsBecome"]>[0],
  to: EndpointHost,
) {
  stage.apply(slice(a, [to]));
  await stage.flowsBecome(signpost, [{ from: "pod", to: a.clusterIP, reaches: [to] }]);
}

Deno.test("5,000 idle connections of a pod keep out neither probes nor changes", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  await using signpost = await stage.startSynced();
  for (const port of [HEALTH_PORT, CHECK_PORT]) {
    await using clients = attack(stage, 5_000, port);
    await signpost.until("all clients", () => clients.lines.length === 1);
    for (const asked of [HEALTH_PORT, CHECK_PORT]) {
      assertEquals(await failedProbes(stage, asked), 0, `${asked} while ${port} is held`);
    }
    await changes(stage, signpost, port === HEALTH_PORT ? "local2" : "remote1");
  }
});

Deno.test("clients that ask for metrics and do not read keep out neither probes nor changes", async () => {
  await using stage = await Stage.create({
    objects: OBJECTS,
    config: { metricsBindAddress: `0.0.0.0:${METRICS_PORT}` },
  });
  await using signpost = await stage.startSynced();
  assertEquals((await stage.get("/", METRICS_PORT)).status, 403, "the page is off beyond loopback");
  await using clients = attack(stage, 256, METRICS_PORT, ["/metrics"]);
  await signpost.until("all clients", () => clients.lines.length === 1);
  assertEquals(await failedProbes(stage, HEALTH_PORT), 0);
  await changes(stage, signpost, "local2");
});

Deno.test("clients that use up the descriptors of one port do not keep probes out", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  const command = withDescriptors(1_000, signpostCommand());
  await using signpost = stage.start([], { command });
  await signpost.until("the first sync", () => syncs(signpost, "full") > 0);
  await using _clients = attack(stage, 3_000, CHECK_PORT);
  await signpost.until(
    "no free descriptors",
    () => /cannot accept a connection/.test(signpost.log),
  );
  for (const port of [HEALTH_PORT, CHECK_PORT]) {
    await signpost.until(`an answer at ${port}`, () => probe(stage, port));
  }
  await changes(stage, signpost, "local2");
});

Deno.test("2,000 requests a second at a health check keep out neither probes nor changes", async () => {
  await using stage = await Stage.create({ objects: OBJECTS });
  await using signpost = await stage.startSynced();
  // 40 clients, with 20 ms between two requests.
  await using clients = attack(stage, 40, CHECK_PORT, ["/livez", "close"]);
  await signpost.until("all clients", () => clients.lines.length === 1);
  for (const port of [HEALTH_PORT, CHECK_PORT]) {
    assertEquals(await failedProbes(stage, port), 0, `${port}`);
  }
  await changes(stage, signpost, "local2");
});

/** Bytes that 2,000 connections of one pod may take. */
const MOST_MEMORY = 50e6;

for (
  const [what, how] of [
    ["open 200 streams of HTTP/2 each", "h2"],
    ["send requests without end", "/healthz"],
  ] as const
) {
  Deno.test(`2,000 connections of a pod that ${what} do not keep probes out`, async () => {
    await using stage = await Stage.create({ objects: OBJECTS });
    await using signpost = await stage.startSynced();
    const before = residentMemory(signpost.pid);
    {
      await using clients = attack(stage, 2_000, HEALTH_PORT, [how]);
      await signpost.until("all clients", () => clients.lines.length === 1);
      for (const port of [HEALTH_PORT, CHECK_PORT]) {
        assertEquals(await failedProbes(stage, port), 0, `${port}`);
      }
      await changes(stage, signpost, "local2");
      assertLessOrEqual(residentMemory(signpost.pid) - before, MOST_MEMORY);
    }
    await signpost.until(
      "the memory is given back",
      () => residentMemory(signpost.pid) - before < MOST_MEMORY / 2,
    );
  });
}

const HAS_GO = await run(["go", "version"]).then(() => true, () => false);

Deno.test("no more probes fail than at a server of Go", { ignore: !HAS_GO }, async () => {
  await using resources = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "signpost-e2e-" });
  resources.defer(() => Deno.remove(folder, { recursive: true }));
  const source = new URL("http_peer.go", import.meta.url).pathname;
  await run(["go", "build", "-o", `${folder}/peer`, source]);
  const stage = resources.use(await Stage.create({ objects: OBJECTS }));
  const command = withDescriptors(1_000, signpostCommand());
  const signpost = resources.use(stage.start([], { command }));
  const peer = withDescriptors(1_000, [`${folder}/peer`, `:${PEER_PORT}`]);
  const inNode = ["netns", "exec", stage.network.namespaceOf(NODE), ...peer];
  resources.use(new Background(["ip", ...inNode]));
  const failed: number[] = [];
  for (const port of [HEALTH_PORT, CHECK_PORT, PEER_PORT]) {
    await signpost.until("a first answer", () => probe(stage, port));
    await using clients = attack(stage, 3_000, port);
    await signpost.until("all clients", () => clients.lines.length === 1);
    failed.push(await failedProbes(stage, port));
  }
  const [health = PROBES, check = PROBES, theirs = 0] = failed;
  assertLessOrEqual(health, theirs);
  assertLessOrEqual(check, theirs);
});
