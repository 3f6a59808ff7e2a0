/**
 * An endpoint that a fault beyond this node's sight keeps from clients: what each command says about it.
 */
import { assertEquals, assertMatch } from "@std/assert";
import type { TopReport } from "../../lib/cli/top.ts";
import type { ObservedEvent } from "../../lib/cli/observe.ts";
import type { ServiceReport } from "../../lib/explain/report.ts";
import { eventually } from "../support/eventually.ts";
import type { Network } from "../support/network.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { ADDRESSES, DROP_TARGET_PORT, PORT, service, slice, slicePorts } from "./cluster.ts";
import { observing } from "./observing.ts";
import { Stage } from "./stage.ts";

const test = sideBySide("an endpoint that does not answer");

const a = ADDRESSES[4];

/** The address of node 2 on the link to its pod. */
const GATE2 = "198.18.0.200";

/** Has `remote2` forward what is sent to the pod `remote1`, as another node does. */
async function moveToNode2(network: Network): Promise<void> {
  await network.run("remote2", ["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
  await network.ip("remote2", [
    `link add pod type veth peer name eth1 netns ${network.namespaceOf("remote1")}`,
    `addr add ${GATE2}/32 dev pod`,
    "link set pod up",
    `route add ${a.remote1} dev pod`,
  ]);
  await network.ip("remote1", [
    "link set eth1 up",
    `route add ${GATE2} dev eth1`,
    `route replace default via ${GATE2} dev eth1 onlink`,
    `route replace 198.18.0.1 via ${GATE2} dev eth1 onlink`,
  ]);
  await network.ip("node", [`route replace ${a.remote1} via ${a.remote2} dev remote2 onlink`]);
}

/** Adds a network policy for the pod to node 2. */
async function isolate(network: Network, verdict: string): Promise<void> {
  await moveToNode2(network);
  await network.run("remote2", [
    "nft",
    `table ip policies {
      chain forward { type filter hook forward priority 0; ip daddr ${a.remote1} ${verdict}; }
    }`,
  ]);
}

interface Fault {
  readonly port?: number;
  readonly make: (network: Network) => Promise<unknown>;
  /** The result of a connection, and what the headline says. */
  readonly results: readonly string[];
  readonly does: RegExp;
  readonly event: ObservedEvent["event"];
}

const SILENT = { results: ["no-answer"], does: /no answer in 1 s/, event: "no-answer" } as const;

const FAULTS: Readonly<Record<string, Fault>> = {
  "a network policy that drops, on its node": {
    ...SILENT,
    make: (network) => isolate(network, "drop"),
  },
  "a network policy that rejects, on its node": {
    make: (network) => isolate(network, "reject"),
    results: ["refused"],
    does: /refused: nothing listens/,
    // An ICMP error is not an answer to connection tracking.
    event: "no-answer",
  },
  "its node is dead": {
    make: async (network) => {
      await moveToNode2(network);
      await network.ip("remote2", ["address flush dev eth0"]);
      await network.ip("node", ["neigh flush dev remote2"]);
    },
    // An address that gave no answer to ARP has no route for some seconds.
    results: ["no-answer", "no-route"],
    does: /no answer in 1 s|no route/,
    event: "no-answer",
  },
  "the target port is wrong": {
    port: 7777,
    make: () => Promise.resolve(),
    results: ["refused"],
    does: /refused: nothing listens/,
    event: "refused",
  },
  "its pod drops": {
    ...SILENT,
    make: (network) => network.run("remote1", ["nft", DROP_TARGET_PORT]),
  },
};

for (const [name, { port = 8080, make, results, does, event }] of Object.entries(FAULTS)) {
  test(`${name}: probe, test, counts, observe and top agree`, async () => {
    await using stage = await Stage.create({
      objects: [
        service(a),
        slice(a, ["local1"]),
        slice(a, ["remote1"], { name: "web-2", ports: slicePorts(port) }),
      ],
    });
    const { network, socket } = stage;
    await using signpost = await stage.startSynced(socket);
    const flow = { from: "pod", to: a.clusterIP, protocols: ["tcp"] } as const;
    const reaches = port === 8080 ? ["local1", "remote1"] as const : undefined;
    if (reaches) await stage.flowsBecome(signpost, [{ ...flow, reaches }]);
    await network.flushConntrack();
    await make(network);
    const place = `${a.remote1}:${port}`;

    const observed = await observing(
      network,
      ["shop/web", "-o", "json", ...socket],
      async (printed) => {
        const to = { from: "pod", address: a.clusterIP, port: PORT } as const;
        await network.connect({ ...to, times: 16, timeout: 2_500 });
        const isSilent = event === "no-answer";
        // An attempt counts when its answer is not under way any more.
        const { report, counted } = await eventually("the counts of explain", async () => {
          const { stdout } = await stage.ask("explain", "web", "-o", "json");
          const report: ServiceReport = JSON.parse(stdout);
          const found = report.traffic?.endpoints.find(({ address }) => address === a.remote1);
          const counted = found ?? { open: 0, unanswered: 0 };
          return !isSilent || counted.unanswered > 0 ? { report, counted } : undefined;
        });
        const codes = report.findings.map(({ code }) => code);
        assertEquals([counted.open, codes], [0, isSilent ? ["unanswered-connections"] : []]);
        const works = isSilent ? "works here, but connections got no answer" : "works here";
        assertEquals(report.summary, `shop/web ${works}`);
        const top: TopReport = JSON.parse((await stage.ask("top", "web", "-o", "json")).stdout);
        const shown = top.endpoints.find(({ address, protocol }) =>
          address === a.remote1 && protocol === "tcp"
        );
        assertEquals([shown?.state, shown?.open, shown?.unanswered], [
          "used",
          0,
          counted.unanswered,
        ]);
        await network.flushConntrack();
        await eventually("the ends", () => printed().includes(`"event":"${event}"`));
      },
    );
    const events: ObservedEvent[] = observed.stdout.trim().split("\n").map((line) =>
      JSON.parse(line)
    );
    const ends = events.filter((each) => each.endpoint === place && each.event !== "new");
    assertEquals([...new Set(ends.map((each) => `${each.event} ${each.pod}`))], [
      `${event} remote1`,
    ]);

    const probed = await stage.ask("explain", "web", "--probe");
    assertEquals(probed.code, 0);
    const [head = ""] = probed.stdout.split("\n");
    assertMatch(head, /^Service shop\/web works here for 1 of 2 endpoints: 10\.244\.1\.11:/);
    assertMatch(head, does);
    const tested = await stage.ask("test", "-n", "shop");
    assertEquals(tested.code, 1);
    assertMatch(
      tested.stdout,
      /^shop\/web\nwarning works here for 1 of 2 endpoints: .* \[endpoint-unreach/,
    );
    assertMatch(tested.stdout, does);
    const json = JSON.parse((await stage.ask("test", "web", "-o", "json")).stdout);
    const [failing] = json.failing;
    const connection = failing.connections.find((each: { address: string }) =>
      each.address === a.remote1
    );
    assertEquals(results.includes(connection.result), true, connection.result);
  });
}

test("it terminates with open connections", async () => {
  await using stage = await Stage.create({ objects: [service(a), slice(a, ["local1"])] });
  const { network, socket } = stage;
  await using signpost = await stage.startSynced(socket);
  const ask = async (...words: string[]) => (await stage.ask(...words)).stdout;
  const flow = { from: "pod", address: a.clusterIP, port: PORT } as const;
  // The kernel reports the end of a connection only if it began while something listened.
  const { stdout } = await observing(network, ["web", ...socket], async (printed) => {
    const open = [await network.stay(flow), await network.stay(flow)];
    const terminating = { ready: false, serving: true, terminating: true };
    stage.apply(slice(a, [{ host: "local1", conditions: terminating }, "local2"]));
    const moved = { from: "pod", to: a.clusterIP, protocols: ["tcp"] } as const;
    await stage.flowsBecome(signpost, [{ ...moved, reaches: ["local2"] }]);
    open.push(await network.stay(flow));
    const text = await ask("explain", "web");
    assertMatch(text, /^ {2}10\.244\.0\.11:8080 +node1 +no +2 +0 +terminating: it still serves/m);
    assertMatch(
      text,
      /^ {2}\S+Z endpoint 10\.244\.0\.12:8080 added, endpoint 10\.244\.0\.11:8080 terminating, in the kernel after \d+ ms$/m,
    );
    const report: ServiceReport = JSON.parse(await ask("explain", "web", "-o", "json"));
    assertEquals(
      report.traffic?.endpoints.filter(({ address }) => address === a.local1)
        .map(({ open, isCurrent }) => [open, isCurrent]),
      [[2, false]],
    );
    const top = await ask("top", "web");
    assertMatch(top, /^shop\/web: 3 open connections through node1$/m);
    assertMatch(
      top,
      /^ +2 +67% +0 +10\.244\.0\.11:8080\/tcp +node1 +terminating: 2 still open, not drained yet$/m,
    );
    for (const each of open) each.close();
    await network.run("node", ["conntrack", "-D", "--reply-src", a.local1]);
    await eventually(
      "an end",
      () => printed().includes("(local1)\n") && printed().includes(" END "),
    );
  });
  assertMatch(
    stdout,
    / END after \S+ \w+ +10\.244\.0\.10:\d+ → .* → 10\.244\.0\.11:8080 \(local1\)$/m,
  );
});
