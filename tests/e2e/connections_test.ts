import { assertEquals, assertMatch } from "@std/assert";
import { parse } from "@std/yaml";
import type { ConnectionsReport } from "../../lib/model/connections.ts";
import { readConnections } from "../../lib/cli/client.ts";
import type { Signpost } from "../support/signpost.ts";
import {
  ADDRESSES,
  type Addresses,
  type EndpointHost,
  type Manifest,
  NODE_PORT,
  PORT,
  service,
  slice,
} from "./cluster.ts";
import { METRICS_PORT, Stage, syncs } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { wordsOf } from "../support/table.ts";

const test = sideBySide("connections are counted");

const [A, A6] = [ADDRESSES[4], ADDRESSES[6]];

/** A Service with every kind of frontend, of both families. */
function web(name = "web"): ReturnType<typeof service> {
  return service(A, {
    name,
    spec: {
      type: "LoadBalancer",
      clusterIPs: [A.clusterIP, A6.clusterIP],
      ipFamilies: ["IPv4", "IPv6"],
      ipFamilyPolicy: "RequireDualStack",
      externalIPs: [A.externalIP],
    },
    ingress: [{ ip: A.loadBalancer }],
  });
}

function slices(...hosts: readonly EndpointHost[]) {
  return [slice(A, hosts, { name: "web-4" }), slice(A6, hosts, { name: "web-6" })];
}

/** Asks the daemon for its counts. */
async function topOf(stage: Stage): Promise<ConnectionsReport> {
  return readConnections(JSON.parse((await stage.ask("top", "--once", "-o", "json")).stdout));
}

/** A stage, and the connections that its test made. */
class Counted implements AsyncDisposable {
  readonly #made = new Map<string, number>();
  /** The last values of the metric: none may fall. */
  readonly #seen = new Map<string, number>();

  private constructor(readonly stage: Stage) {}

  static async create(mode: string): Promise<Counted> {
    const objects = [web(), ...slices("local1")];
    return new Counted(await Stage.create({ objects, config: { mode } }));
  }

  /** Starts the daemon, and waits until it counts. */
  async start(args: readonly string[] = []): Promise<Signpost> {
    await using resources = new AsyncDisposableStack();
    const signpost = resources.use(this.stage.start([...this.stage.socket, ...args]));
    await signpost.until("the first reading", async () => {
      const { at } = await this.top();
      assertMatch(at, /Z$/);
      return true;
    });
    resources.move();
    return signpost;
  }

  /** Connects so many times to a kind of frontend. */
  async connect(frontend: string, times: number, a: Addresses = A): Promise<void> {
    const { loadBalancer, externalIP, clusterIP, node } = a;
    const addresses: Readonly<Record<string, string>> = {
      clusterIP,
      externalIP,
      loadBalancerIP: loadBalancer,
      nodePort: node,
    };
    await this.stage.network.connect({
      from: "client",
      address: addresses[frontend] ?? "",
      port: frontend === "nodePort" ? NODE_PORT : 80,
      times,
      timeout: 10_000,
    });
    this.#made.set(frontend, (this.#made.get(frontend) ?? 0) + times);
  }

  /** A new Service of the name counts from nothing. */
  forget(): void {
    this.#made.clear();
    this.#seen.clear();
  }

  async top(): Promise<ConnectionsReport> {
    return await topOf(this.stage);
  }

  /** The metric, by kind of frontend, of TCP. */
  async metric(): Promise<ReadonlyMap<string, number>> {
    const { body } = await this.stage.get("/metrics", METRICS_PORT);
    const line =
      /^signpost_service_connections_total\{namespace="shop",service="web",port="80",protocol="tcp",frontend="(\w+)"\} (\d+)$/gm;
    const found = new Map([...body.matchAll(line)].map(([, kind = "", n]) => [kind, Number(n)]));
    for (const [kind, count] of found) {
      assertEquals(count >= (this.#seen.get(kind) ?? 0), true, `${kind} fell`);
      this.#seen.set(kind, count);
    }
    return found;
  }

  /** Waits until `top` and the metric have all that was made, and nothing more. */
  async countsAll(signpost: Signpost): Promise<void> {
    const made = Object.fromEntries([...this.#made].sort());
    await signpost.until("all connections are counted", async () => {
      const { services } = await this.top();
      const shown = services.filter(({ protocol }) => protocol === "tcp")
        .map(({ frontend, connections }) => [frontend, connections] as const);
      assertEquals(Object.fromEntries(shown.sort()), made);
      assertEquals(Object.fromEntries([...await this.metric()].sort()), made);
      return true;
    });
  }

  async apply(signpost: Signpost, ...objects: readonly Manifest[]): Promise<void> {
    const before = syncs(signpost, "partial");
    this.stage.apply(...objects);
    await signpost.until("the change", () => syncs(signpost, "partial") > before);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stage[Symbol.asyncDispose]();
  }
}

for (const mode of ["nftables", "iptables"]) {
  test(`${mode}: top counts each connection once through updates of the Service`, async () => {
    await using counted = await Counted.create(mode);
    await using signpost = await counted.start();
    await counted.connect("clusterIP", 5);
    await counted.connect("clusterIP", 2, A6);
    await counted.connect("nodePort", 3);
    await counted.connect("loadBalancerIP", 4);
    await counted.connect("externalIP", 6);
    await counted.countsAll(signpost);

    await counted.connect("clusterIP", 3);
    await counted.countsAll(signpost);
    await counted.apply(signpost, ...slices("local1", "remote1"));
    await counted.connect("clusterIP", 4);
    await counted.countsAll(signpost);
    await counted.apply(signpost, ...slices("remote1", "remote2", "local2"));
    await counted.connect("nodePort", 1);
    await counted.countsAll(signpost);

    const { spec } = web() as { readonly spec: { readonly ports: readonly unknown[] } };
    const tls = { name: "tls", protocol: "TCP", port: 443, targetPort: 8443, nodePort: 30443 };
    await counted.connect("loadBalancerIP", 2);
    await counted.countsAll(signpost);
    await counted.apply(signpost, { ...web(), spec: { ...spec, ports: [...spec.ports, tls] } });
    await counted.connect("loadBalancerIP", 1);
    await counted.countsAll(signpost);

    counted.stage.remove("Service", "shop/web");
    await signpost.until("no series of it", async () => (await counted.metric()).size === 0);
    counted.forget();
    await counted.apply(signpost, web());
    await counted.connect("clusterIP", 2);
    await counted.countsAll(signpost);
  });

  test(`${mode}: a full sync and a restart count no connection again`, async () => {
    await using counted = await Counted.create(mode);
    {
      await using signpost = await counted.start();
      await counted.connect("clusterIP", 7);
      await counted.countsAll(signpost);
      const before = syncs(signpost, "full");
      await counted.stage.ask("verify", "--fix");
      await counted.stage.network.run("node", [
        "sh",
        "-c",
        mode === "nftables" ? "nft delete table inet signpost" : "iptables -t nat -F KUBE-SERVICES",
      ]);
      if (mode === "iptables") await counted.stage.ask("verify", "--fix");
      await signpost.until("a full sync", () => syncs(signpost, "full") > before);
      await counted.connect("clusterIP", 1);
      await counted.countsAll(signpost);
    }
    counted.forget();
    await using signpost = await counted.start();
    await counted.connect("clusterIP", 2);
    await counted.countsAll(signpost);
  });
}

for (const mode of ["nftables", "iptables"]) {
  test(`${mode}: connections that the rules refuse are counted by Service and reason`, async () => {
    const ports = [{ name: "tcp", protocol: "TCP", port: 80, targetPort: 8080 }];
    const balanced = (name: string, address: string, clusterIP: string, spec: object) =>
      service(A, {
        name,
        spec: { type: "LoadBalancer", clusterIP, ports, ...spec },
        ingress: [{ ip: address }],
      });
    await using stage = await Stage.create({
      config: { mode },
      objects: [
        service(A, { name: "closed", spec: { type: "NodePort", clusterIP: A.clusterIP2 } }),
        balanced("limited", A.loadBalancer, "10.96.0.31", {
          loadBalancerSourceRanges: [A.clientCIDR],
        }),
        slice(A, ["local1"], { service: "limited" }),
        balanced("local", A.loadBalancer2, "10.96.0.32", { externalTrafficPolicy: "Local" }),
        slice(A, ["remote1"], { service: "local" }),
      ],
    });
    await using signpost = await stage.startSynced(stage.socket);
    const connect = (from: "client" | "client2", address: string, times: number, port = 80) =>
      stage.network.connect({ from, address, port, times });
    await signpost.until("the first reading", async () => (await topOf(stage)).at !== "");
    await connect("client", A.clusterIP2, 3);
    await connect("client", A.node, 2, NODE_PORT);
    await connect("client", A.loadBalancer, 1);
    await connect("client2", A.loadBalancer, 4);
    await connect("client", A.loadBalancer2, 5);
    const expected = {
      "closed clusterIP no-endpoints": 3,
      "closed nodePort no-endpoints": 2,
      "limited loadBalancerIP source-range": 4,
      "local loadBalancerIP no-local-endpoints": 5,
    };
    await signpost.until("all are counted", async () => {
      const { rejected, totalRejected } = await topOf(stage);
      const counts = rejected.map(({ service, frontend, reason, connections }) =>
        [`${service} ${frontend} ${reason}`, connections] as const
      );
      assertEquals(Object.fromEntries(counts.sort()), expected);
      assertEquals(totalRejected.connections, 14);
      return true;
    });
    const metric = 'signpost_rejected_connections_total{namespace="shop",service="limited",' +
      'port="80",protocol="tcp",frontend="loadBalancerIP",reason="source-range"}';
    assertEquals(await stage.metric(metric), 4);
    assertEquals((await stage.ask("verify")).code, 0);
  });
}

/** The alert on refused connections. */
async function alertExpression(): Promise<string> {
  const file = new URL("../../charts/signpost/monitoring/alerts.yaml", import.meta.url);
  const { groups } = parse(await Deno.readTextFile(file)) as {
    readonly groups: readonly { readonly rules: readonly Readonly<Record<string, string>>[] }[];
  };
  const rules = groups.flatMap((group) => group.rules);
  return rules.find(({ alert }) => alert === "SignpostConnectionsRejected")?.["expr"] ?? "";
}

for (const mode of ["nftables", "iptables"]) {
  test(`${mode}: refused connections are in top, explain, the metric, its alert`, async () => {
    await using stage = await Stage.create({
      config: { mode },
      objects: [service(A, { name: "closed" })],
    });
    await using signpost = await stage.startSynced(stage.socket);
    let made = 0;
    const end = new AbortController();
    const clients = (async () => {
      for (const start = performance.now(); !end.signal.aborted;) {
        await stage.network.connect({ from: "pod", address: A.clusterIP, port: PORT });
        const late = performance.now() - start - 25 * ++made;
        if (late < 0) await new Promise((resolve) => setTimeout(resolve, -late));
      }
    })();
    try {
      await signpost.until("top has the rate", async () => {
        const [only, ...others] = (await topOf(stage)).rejected;
        assertEquals([only?.service, only?.reason, others], ["closed", "no-endpoints", []]);
        assertEquals(Math.round((only?.perSecond ?? 0) / 10), 4);
        return true;
      });
      assertMatch(
        (await stage.ask("top", "--once")).stdout,
        /; \d\d a second rejected$[^]*^ +\d\d +\d+ +clusterIP +80\/tcp +rejected: no endpoints +shop\/closed$/m,
      );
      assertMatch(
        (await stage.ask("explain", "closed")).stdout,
        /^warning \d\d connections a second to port 80\/tcp \(clusterIP\), \d+ in all: rejected: no endpoints \[connections-rejected\]$/m,
      );
      const [, group = "", metric = "", most = ""] =
        /^sum by \((.*)\) \( ?rate\((\w+)\[5m\]\)\) > (\d+)$/.exec(await alertExpression()) ?? [];
      const read = async () => {
        const { body } = await stage.get("/metrics", METRICS_PORT);
        const [line = "", ...others] = body.split("\n").filter((each) =>
          each.startsWith(metric + "{")
        );
        assertEquals(others, []);
        for (const label of group.split(", ")) assertMatch(line, new RegExp(`[{,]${label}="`));
        return { at: performance.now(), value: Number(line.split(" ").at(-1)) };
      };
      const first = await read();
      await new Promise((resolve) => setTimeout(resolve, 10_000));
      const last = await read();
      const rate = 1_000 * (last.value - first.value) / (last.at - first.at);
      assertEquals([rate > 25, rate < 55, rate > Number(most)], [true, true, true], `${rate}`);
    } finally {
      end.abort();
      await clients;
    }
  });
}

test("traffic that policy Local sends past its short circuit counts once", async () => {
  await using counted = await Counted.create("nftables");
  const { spec } = web() as { readonly spec: object };
  counted.stage.apply(
    { ...web(), spec: { ...spec, externalTrafficPolicy: "Local" } },
    ...slices("local1", "remote1"),
  );
  await using signpost = await counted.start();
  await counted.connect("loadBalancerIP", 4);
  await counted.connect("nodePort", 2);
  await counted.stage.network.connect({
    from: "pod",
    address: A.loadBalancer,
    port: 80,
    times: 3,
    timeout: 10_000,
  });
  await signpost.until("all are counted", async () => {
    const { services } = await counted.top();
    assertEquals(
      Object.fromEntries(services.map(({ frontend, connections }) => [frontend, connections])),
      { loadBalancerIP: 7, nodePort: 2 },
    );
    return true;
  });
});

test("nothing counts connections if it is switched off", async () => {
  await using counted = await Counted.create("nftables");
  const args = ["--service-metrics=false", ...counted.stage.socket];
  await using _signpost = await counted.stage.startSynced(args);
  const { code, stderr } = await counted.stage.ask("top");
  assertEquals(code, 1);
  assertMatch(stderr, /connections are not counted: --service-metrics is off/);
  const { body } = await counted.stage.get("/metrics", METRICS_PORT);
  assertEquals(body.includes("signpost_service_connections_total"), false);
  const table = await counted.stage.network.run("node", wordsOf("nft list table inet signpost"));
  assertEquals(table.includes("counter"), false);
});
