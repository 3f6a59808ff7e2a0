/**
 * Stale flows in a real kernel: clients that keep their source port, in network namespaces.
 */
import { assertEquals } from "@std/assert";
import { ConntrackCleaner } from "../../lib/conntrack/conntrack.ts";
import { parseEntries } from "../../lib/conntrack/tool.ts";
import { applyConntrackSettings } from "../../lib/conntrack/kernel_settings.ts";
import { hostPort } from "../../lib/model/cluster/names.ts";
import type { ProcessRunner } from "../../lib/model/ports/ports.ts";
import { type Mode, MODES } from "../../lib/model/configuration.ts";
import type { Script, ScriptWriter } from "../../lib/model/kernel/dataplane.ts";
import type { DesiredState, StateChange } from "../../lib/model/kernel/desired.ts";
import { NftablesDataplane } from "../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../lib/backend/nftables/nft.ts";
import { SystemClock } from "../../lib/system/clock.ts";
import { readSysctl } from "../../lib/backend/sysctl.ts";
import { newDataplane } from "../backend/iptables/kernel.ts";
import { runnerIn } from "../support/command.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { EventLoop } from "../support/event_loop.ts";
import { Libc } from "../support/libc.ts";
import { Network } from "../support/network.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { Clients } from "../support/traffic.ts";
import { MemoryLogger } from "../support/clock_and_log.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { service as buildService, slice as buildSlice } from "../support/cluster.ts";

const test = sideBySide("conntrack in the kernel");

const FAMILIES = {
  IPv4: {
    node: "192.0.2.10",
    client: "203.0.113.10",
    web1: "10.244.0.11",
    web2: "10.244.0.12",
    vip: "10.96.0.10",
    other: "10.96.0.20",
  },
  IPv6: {
    node: "2001:db8::10",
    client: "2001:db8:1::10",
    web1: "fd00:10:244::11",
    web2: "fd00:10:244::12",
    vip: "fd00:10:96::10",
    other: "fd00:10:96::20",
  },
} as const;

type FamilyName = keyof typeof FAMILIES;

const NODE_PORT = 30053;
/** The port of the servers web1 and web2. */
const TARGET_PORT = 5353;

/** A Service on port 53 with a node port. */
function service(name: string, vip: string, nodePort = 0): ApiObject {
  const type = nodePort === 0 ? "ClusterIP" : "NodePort";
  const ports = [{ protocol: "UDP", port: 53, ...(nodePort !== 0 && { nodePort }) }];
  return buildService({ name, type, clusterIP: vip, ports });
}

function slice(
  service: string,
  addressType: FamilyName,
  endpoints: readonly string[],
  protocol = "UDP",
): ApiObject {
  const ports = [{ name: "", protocol, port: TARGET_PORT }];
  return buildSlice({ service, addressType, ports, endpoints });
}

/** Returns what applies a change, or all rules, with the rules of a mode. */
function applierOf<S extends Script>(dataplane: ScriptWriter<S>) {
  return async (state: DesiredState, change: StateChange | undefined): Promise<void> => {
    const partial = change && atOnce(dataplane.changing(change, state));
    await dataplane.apply(partial ?? dataplane.full(state));
  };
}

/** A node with our rules and the cleaner, two endpoints, and a client that keeps its ports. */
class Bench implements AsyncDisposable {
  readonly #pipeline: Pipeline;
  readonly #resources: AsyncDisposableStack;
  readonly #clients: Clients;
  readonly #clientNamespace: number;
  readonly #apply: ReturnType<typeof applierOf>;
  readonly #cleaner: ConntrackCleaner;
  #cleaned = Promise.withResolvers<number>();
  readonly log = new MemoryLogger();
  readonly runner: ProcessRunner;
  #isFirst = true;

  private constructor(
    readonly network: Network,
    readonly family: FamilyName,
    mode: Mode,
    resources: AsyncDisposableStack,
  ) {
    this.#pipeline = new Pipeline({
      mode,
      configuration: { nodePortAddresses: ["192.0.2.0/24", "2001:db8::/64"] },
    });
    const libc = resources.use(new Libc());
    this.#clients = new Clients(libc, resources.use(new EventLoop(libc)));
    this.#clientNamespace = libc.openNamespace(`/run/netns/${network.namespaceOf("client")}`);
    resources.defer(() => libc.close(this.#clientNamespace));
    this.runner = runnerIn(network.namespaceOf("node"));
    this.#apply = mode === "nftables"
      ? applierOf(new NftablesDataplane(new Nft(this.runner)))
      : applierOf(newDataplane({ runner: this.runner, variant: "-nft" }));
    this.#cleaner = new ConntrackCleaner({
      state: this.#pipeline.desired,
      runtime: {
        runner: this.runner,
        clock: new SystemClock(),
        addresses: () => [FAMILIES[family].node, "127.0.0.1", "::1"],
      },
      metrics: { conntrackReconciled: (_, { deleted }) => this.#cleaned.resolve(deleted) },
      logger: this.log,
      signal: resources.adopt(new AbortController(), (ended) => ended.abort()).signal,
    });
    this.#resources = resources.move();
  }

  static async create(family: FamilyName, mode: Mode = "nftables"): Promise<Bench> {
    await using resources = new AsyncDisposableStack();
    const { node, client, web1, web2 } = FAMILIES[family];
    const network = resources.use(
      await Network.create({
        node: [node],
        hosts: { client: [client], web1: [web1], web2: [web2] },
      }),
    );
    for (const host of ["web1", "web2"]) {
      for (const protocol of ["udp", "tcp"] as const) {
        network.serve(host, { protocol, port: TARGET_PORT });
      }
    }
    network.serve("node", { protocol: "udp", port: NODE_PORT });
    return new Bench(network, family, mode, resources);
  }

  /** Makes these the objects of the cluster, as the sync loop does. @returns how many flows were deleted */
  async sync(objects: readonly ApiObject[], options = { clean: true }): Promise<number> {
    const { change } = this.#pipeline.load(objects);
    const { desired } = this.#pipeline;
    await this.#apply(desired, this.#isFirst ? undefined : change);
    const full = this.#isFirst;
    this.#isFirst = false;
    if (!options.clean) return 0;
    this.#cleaned = Promise.withResolvers();
    atOnce(this.#cleaner.following({ change, applied: "partial", isFull: full }));
    return await this.#cleaned.promise;
  }

  /** Sends from this port of the client. @returns the host that answered, or what came instead */
  async ask(
    sourcePort: number,
    address: string,
    port = 53,
    protocol: "udp" | "tcp" = "udp",
  ): Promise<string> {
    const outcome = await this.#clients.connect({
      namespace: this.#clientNamespace,
      protocol,
      source: { address: FAMILIES[this.family].client, port: sourcePort },
      destination: { address, port },
      timeout: 2_000,
    });
    return outcome.type === "answer" ? outcome.answer.host : outcome.type;
  }

  /** Returns the destination of each client port's flow, as the kernel has it. */
  async tracked(): Promise<Record<number, string>> {
    const family = this.family.toLowerCase();
    const text = await this.network.run("node", ["conntrack", "-L", "-f", family, "-p", "udp"]);
    return Object.fromEntries(
      [...parseEntries(text)].map(({ original, reply }) => [
        original.sport,
        hostPort(reply.src, reply.sport),
      ]),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

for (const family of ["IPv4", "IPv6"] as const) {
  const { node, web1, web2, vip, other } = FAMILIES[family];
  const both = (addresses: readonly string[]) => [
    service("dns", vip, NODE_PORT),
    slice("dns", family, addresses),
    service("other", other),
    slice("other", family, [web1]),
  ];
  const [at1, at2] = [hostPort(web1, TARGET_PORT), hostPort(web2, TARGET_PORT)];

  test(`${family}: a client's next datagram goes to the new endpoint`, async () => {
    await using bench = await Bench.create(family);
    await bench.sync(both([web1]));
    const ask = async () => [
      await bench.ask(1001, vip),
      await bench.ask(1002, node, NODE_PORT),
      await bench.ask(1003, other),
      await bench.ask(1004, web1, TARGET_PORT),
      await bench.ask(1005, node, NODE_PORT + 1),
    ];
    assertEquals(await ask(), ["web1", "web1", "web1", "web1", "reject"]);
    assertEquals(await bench.sync(both([web2]), { clean: false }), 0);
    assertEquals(await bench.ask(1001, vip), "web1", "without the cleaner the flow is stale");

    assertEquals(await bench.sync(both([])), 2);
    assertEquals(await bench.sync(both([web1])), 0);
    assertEquals((await ask()).slice(0, 4), ["web1", "web1", "web1", "web1"]);
    assertEquals(await bench.sync(both([web2])), 2);
    const { 1003: ofOther, 1004: direct, ...gone } = await bench.tracked();
    assertEquals([ofOther, direct], [at1, at1]);
    assertEquals([gone[1001], gone[1002]], [undefined, undefined]);
    assertEquals((await ask()).slice(0, 4), ["web2", "web2", "web1", "web1"]);
    const { 1001: ofVip, 1002: ofNodePort } = await bench.tracked();
    assertEquals([ofVip, ofNodePort], [at2, at2]);
    assertEquals(bench.log.warnings, []);
  });

  test(`${family}: flows that went past a virtual IP reach its new Service`, async () => {
    await using bench = await Bench.create(family);
    const rest = [service("other", other), slice("other", family, [web1])];
    await bench.sync(rest);
    const ask = async () => [
      await bench.ask(1001, vip),
      await bench.ask(1002, node, NODE_PORT),
      await bench.ask(1003, other),
      await bench.ask(1004, vip, 54),
    ];
    assertEquals(await ask(), ["world", "node", "web1", "world"]);
    const dns = service("dns", vip, NODE_PORT);
    assertEquals(await bench.sync([...rest, dns]), 2, "it has no endpoints");
    assertEquals((await ask()).slice(0, 3), ["reject", "reject", "web1"]);
    await bench.sync([...rest, dns, slice("dns", family, [web2])]);
    assertEquals((await ask()).slice(0, 3), ["web2", "web2", "web1"]);
    const { 1004: unrelated } = await bench.tracked();
    assertEquals(unrelated, hostPort(vip, 54));

    assertEquals(await bench.sync(rest), 2, "the Service is gone");
    assertEquals(await ask(), ["world", "node", "web1", "world"]);
    assertEquals(bench.log.warnings, []);
  });
}

/** Drops TCP alone: without its neighbour discovery, the host is unreachable. */
const DROP =
  "table inet silent { chain tcp-in { type filter hook prerouting priority -300; meta l4proto tcp drop; }; }";

for (const mode of MODES) {
  for (const family of ["IPv4", "IPv6"] as const) {
    test(`${mode}, ${family}: a TCP client's one port reaches a later Service`, async () => {
      await using bench = await Bench.create(family, mode);
      const { vip, other, web1 } = FAMILIES[family];
      await bench.sync([], { clean: false });
      await bench.network.run("world", ["nft", DROP]);
      const ask = () => bench.ask(1001, vip, 53, "tcp");
      assertEquals(await ask(), "drop");
      const ports = [{ protocol: "TCP", port: 53 }];
      const objects = [
        buildService({ clusterIP: other, externalIPs: [vip], ports }),
        slice("web", family, [web1], "TCP"),
      ];
      await bench.sync(objects, { clean: false });
      assertEquals(await ask(), "drop", "without the cleaner the entry stays");
      await bench.sync([], { clean: false });
      assertEquals(await bench.sync(objects), 1);
      assertEquals(await ask(), "web1");
      assertEquals(bench.log.warnings, []);
    });
  }
}

test("hundreds of flows to a removed endpoint are deleted at once", async () => {
  await using bench = await Bench.create("IPv4");
  const { vip, web1, web2, other } = FAMILIES.IPv4;
  const flows = (from: number, to: number) =>
    Array.from(
      { length: to - from },
      (_, index) =>
        `-A -t 600 -u SEEN_REPLY -s 198.51.100.1 -d ${index % 2 === 0 ? vip : other} -r ${web1} ` +
        `-q 198.51.100.1 -p udp --sport ${from + index} --dport 53 ` +
        `--reply-port-src ${TARGET_PORT} --reply-port-dst ${from + index}\n`,
    ).join("");
  const fill = (text: string) =>
    bench.network.run("node", ["conntrack", "--load-file", "-"], { stdin: text });
  const objects = (endpoint: string) => [
    service("dns", vip),
    slice("dns", "IPv4", [endpoint]),
    service("other", other),
    slice("other", "IPv4", [web1]),
  ];
  await fill(flows(1, 401));
  assertEquals(await bench.sync(objects(web1)), 0);
  assertEquals(await bench.sync(objects(web2)), 200);
  assertEquals(Object.keys(await bench.tracked()).length, 200);

  await using restarted = await Bench.create("IPv4");
  await restarted.network.run("node", ["conntrack", "--load-file", "-"], { stdin: flows(1, 401) });
  assertEquals(await restarted.sync(objects(web2)), 200);
});

test("the timeouts of a network namespace are set, its read-only limits are returned", async () => {
  await using bench = await Bench.create("IPv4");
  await bench.sync([], { clean: false });
  const { runner } = bench;
  const read = (name: string) => readSysctl(runner, `net.netfilter.nf_conntrack_${name}`);
  const settings = {
    ...DEFAULTS.conntrack,
    maxPerCore: Number(await read("max")) + 4,
    tcpEstablishedTimeout: 1_234_000,
    udpStreamTimeout: 77_000,
    tcpBeLiberal: true,
  };
  const apply = (conntrack: typeof settings) =>
    applyConntrackSettings({
      configuration: { conntrack },
      runtime: { cpus: () => 1, runner },
      logger: bench.log,
    });
  const failed = await apply(settings);
  assertEquals(
    [await read("tcp_timeout_established"), await read("udp_timeout_stream")],
    ["1234", "77"],
  );
  assertEquals(await read("tcp_be_liberal"), "1");
  assertEquals(failed[0]?.name, "net.netfilter.nf_conntrack_max");
  assertEquals(await apply({ ...settings, maxPerCore: 0 }), []);
});
