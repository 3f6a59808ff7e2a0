import { assertEquals } from "@std/assert";
import { connectionFindings, readTraffic } from "../../lib/explain/traffic.ts";
import { ManualClock } from "../support/clock_and_log.ts";
import { loadBalancer, LOCAL, NODE_ADDRESS, REMOTE, slice, worldOf } from "./cluster.ts";

/** Returns a line of `conntrack -L` with a connection and its answers. */
function line(protocol: string, there: string, back: string, flags = ""): string {
  const direction = (text: string) => {
    const [src, sport, dst, dport] = text.split(" ");
    return `src=${src} dst=${dst} sport=${sport} dport=${dport}`;
  };
  const number = protocol === "udp" ? 17 : 6;
  return `${protocol} ${number} 29 ${direction(there)} ${flags} ${direction(back)} mark=0 use=1\n`;
}

async function connections(text: string) {
  const ports = [{ name: "http", port: 80, nodePort: 30080 }, {
    name: "dns",
    port: 53,
    protocol: "UDP",
  }];
  const { world } = worldOf([
    loadBalancer({ ports }),
    slice([LOCAL, REMOTE], {
      ports: [{ name: "http", port: 8080 }, { name: "dns", port: 53, protocol: "UDP" }],
    }),
  ]);
  const { connections } = await readTraffic([...world.desired.services.values()].flat(), {
    ownAddresses: world.ownAddresses,
    isAsked: true,
    clock: new ManualClock(),
    runner: { run: () => Promise.resolve({ code: 0, stdout: "120\n", stderr: "" }) },
    streamer: {
      async *lines(argv) {
        await Promise.resolve();
        if (argv.includes("ipv4")) yield* text.trimEnd().split("\n");
      },
    },
  });
  return connections;
}

Deno.test("tracked connections to any address of a Service are shown with their endpoint", async () => {
  const text =
    line("tcp", "10.244.0.9 4000 10.96.0.10 80", "10.244.0.11 8080 10.244.0.9 4000", "[ASSURED]") +
    line("tcp", `203.0.113.9 4001 ${NODE_ADDRESS} 30080`, `10.244.1.11 8080 ${NODE_ADDRESS} 4001`) +
    line("tcp", "10.244.0.9 4002 10.96.0.99 80", "10.244.0.11 8080 10.244.0.9 4002") +
    line("udp", "10.244.0.9 4003 10.96.0.10 80", "10.244.0.11 8080 10.244.0.9 4003");
  assertEquals(await connections(text), [{
    protocol: "tcp",
    source: "10.244.0.9:4000",
    destination: "10.96.0.10:80",
    endpoint: "10.244.0.11:8080",
    flags: ["ASSURED"],
    isCurrent: true,
  }, {
    protocol: "tcp",
    source: "203.0.113.9:4001",
    destination: `${NODE_ADDRESS}:30080`,
    endpoint: "10.244.1.11:8080",
    flags: [],
    isCurrent: true,
  }]);
});

Deno.test("UDP flows to a removed endpoint are stale", async () => {
  const stale = (protocol: string, port: number) =>
    line(protocol, `10.244.0.9 4000 10.96.0.10 ${port}`, "10.244.7.7 53 10.244.0.9 4000");
  const found = await connections(stale("udp", 53) + stale("tcp", 80));
  assertEquals(found.map(({ isCurrent }) => isCurrent), [false, false]);
  assertEquals(connectionFindings(found).map(({ code, message, hint }) => [code, message, hint]), [[
    "stale-conntrack",
    "1 UDP flow still goes to a removed endpoint, such as 10.244.0.9:4000 to 10.96.0.10:53 " +
    "by 10.244.7.7:53",
    "conntrack -D -p udp --orig-dst 10.96.0.10",
  ]]);
  assertEquals(connectionFindings(undefined), []);
});
