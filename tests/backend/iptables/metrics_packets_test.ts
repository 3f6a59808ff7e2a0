import { assertEquals } from "@std/assert";
import { countIn, PACKET_METRICS } from "../../../lib/backend/iptables/metrics.ts";
import { boundedReading } from "../../../lib/model/values/timing.ts";
import { ManualClock, settle } from "../../support/clock_and_log.ts";
import { runnerIn } from "../../support/command.ts";
import { Network } from "../../support/network.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { newDataplane, VARIANTS } from "./kernel.ts";
import { service, slice } from "../../support/cluster.ts";

const POD = "10.244.0.11";
const NODE_PORT = 30080;
const TOPOLOGY = {
  node: ["192.168.0.2", "2001:db8::2"],
  hosts: { web: [POD, "fd00:10:244::11"], client: ["203.0.113.10", "2001:db8:1::10"] },
};
const OBJECTS = [
  service({
    type: "NodePort",
    ports: [{ name: "http", port: 80, protocol: "TCP", nodePort: NODE_PORT }],
  }),
  slice({ ports: [{ name: "http", port: 8080, protocol: "TCP" }], endpoints: [`${POD}@node-1`] }),
];

for (const variant of VARIANTS) {
  Deno.test(`iptables${variant}: full syncs keep counts of invalid and localhost packets`, async () => {
    await using network = await Network.create(TOPOLOGY);
    network.serve("web", { protocol: "tcp", port: 8080 });
    const dataplane = newDataplane({
      runner: runnerIn(network.namespaceOf("node")),
      variant,
      routeLocalnet: async () => {
        await network.run("node", ["sysctl", "-q", "-w", "net.ipv4.conf.all.route_localnet=1"]);
      },
    });
    const pipeline = new Pipeline({ mode: "iptables" });
    pipeline.load(OBJECTS);
    const sync = () => dataplane.apply(dataplane.full(pipeline.desired));
    const read = async () => {
      await dataplane.readPackets();
      return PACKET_METRICS.map(({ name }) => dataplane.packetsOf(name));
    };
    const connect = async (from: "node" | "client", address: string, port: number) => {
      const [outcome] = await network.connect({ from, address, port });
      return outcome?.type;
    };

    await sync();
    assertEquals(await read(), [0, 0]);

    assertEquals(await connect("node", "127.0.0.1", NODE_PORT), "answer");
    assertEquals(await connect("node", "192.168.0.2", NODE_PORT), "answer");
    assertEquals(await connect("client", "192.168.0.2", NODE_PORT), "answer");
    assertEquals(await read(), [0, 1]);

    // A reset of a connection that the node does not know is invalid.
    await network.run("client", ["nft", "-f", "-"], {
      stdin: `table ip t {
        chain c {
          type filter hook postrouting priority 0
          ip daddr ${POD} tcp flags set rst
        }
      }`,
    });
    assertEquals(await connect("client", POD, 8080), "drop");
    const [invalidDropped = 0, localhostNodePorts] = await read();
    assertEquals([invalidDropped > 0, localhostNodePorts], [true, 1]);

    await sync();
    assertEquals(await connect("node", "127.0.0.1", NODE_PORT), "answer");
    assertEquals(await read(), [invalidDropped, 2]);
  });
}

Deno.test("counters are read where the program prints them", () => {
  const listing = "-N KUBE-FORWARD\n" +
    "-A KUBE-FORWARD -m conntrack --ctstate INVALID -c 7 280 -j DROP\n" +
    '-A KUBE-FORWARD -m comment --comment "-c 9 9" -c 3 120 -j ACCEPT\n';
  const [invalidDropped, localhostNodePorts] = PACKET_METRICS;
  if (!invalidDropped || !localhostNodePorts) throw new Error("a metric is missing");
  assertEquals(countIn(invalidDropped, listing), 7);
  assertEquals(countIn(localhostNodePorts, listing), undefined);
  const end = "-A KUBE-POSTROUTING -m conntrack --ctstate DNAT --ctorigdst 127.0.0.0/8 -c 5 300\n";
  assertEquals(countIn(localhostNodePorts, end), 5);
  assertEquals(countIn(invalidDropped, "-N KUBE-FORWARD\n"), undefined);
});

Deno.test("many scrapes are one reading", async () => {
  const clock = new ManualClock();
  let count = 0;
  const readings: PromiseWithResolvers<void>[] = [];
  const read = boundedReading({
    clock,
    refresh: () => {
      const reading = Promise.withResolvers<void>();
      readings.push(reading);
      return reading.promise;
    },
    known: () => ({ invalidDropped: count, localhostNodePorts: 0 }),
  });
  const both = [read(), read()];
  await settle();
  count = 1;
  readings[0]?.resolve();
  assertEquals((await Promise.all(both)).map(({ invalidDropped }) => invalidDropped), [1, 1]);
  await read();
  assertEquals(readings.length, 1);

  await clock.advance(5_000);
  const hanging = read();
  await clock.advance(2_000);
  assertEquals((await hanging).invalidDropped, 1);
  const late = read();
  assertEquals(readings.length, 2);
  readings[1]?.reject(new Error("no"));
  assertEquals((await late).invalidDropped, 1);
});
