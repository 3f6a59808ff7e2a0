import { assertEquals } from "@std/assert";
import { OwnPorts } from "../../../lib/daemon/objects/own_ports.ts";
import { ManualClock } from "../../support/clock_and_log.ts";

async function* asyncLines(lines: readonly string[]) {
  for (const line of lines) yield await Promise.resolve(line);
}

/** Own ports of a daemon with this API server, and the names that its machine knows. */
function ownPorts(server: string | undefined, names: Record<string, readonly string[]> = {}) {
  const clock = new ManualClock();
  const proc: Record<string, readonly string[]> = {};
  const state = { server, healthz: "0.0.0.0:10256", vips: [] as string[] };
  const runtime = {
    clock,
    addresses: () => ["192.0.2.1", ...state.vips],
    streamer: { lines: ([, file = ""]: readonly string[]) => asyncLines(proc[file] ?? []) },
    resolve: (host: string) =>
      names[host] ? Promise.resolve(names[host]) : Promise.reject(new Error("no such host")),
  };
  const own = new OwnPorts({
    configuration: { healthzBindAddress: state.healthz },
    locate: server === undefined ? undefined : () => Promise.resolve(new URL(state.server ?? "")),
    runtime,
  });
  const list = () =>
    (own.desiredOptions.ownPorts?.() ?? []).map(({ address, port }) => `${address ?? "*"} ${port}`);
  return { own, list, clock, state, names, proc };
}

Deno.test("the API server's address and port are the daemon's own, and its health port", async () => {
  for (
    const [server, port] of [
      ["https://192.0.2.6:6443", "192.0.2.6 6443"],
      ["https://192.0.2.6", "192.0.2.6 443"],
      ["http://192.0.2.6", "192.0.2.6 80"],
      ["https://[2001:db8::6]:6443", "2001:db8::6 6443"],
    ] as const
  ) {
    const { own, list } = ownPorts(server);
    assertEquals(list(), ["* 10256"]);
    assertEquals(await own.look(), true);
    assertEquals(list(), [port, "* 10256"]);
    assertEquals(await own.look(), false);
    assertEquals(own.desiredOptions.ownAddresses?.(), ["192.0.2.1"]);
  }
});

Deno.test("manifests keep no port for the daemon", async () => {
  const { own, list } = ownPorts(undefined);
  assertEquals(await own.look(), false);
  assertEquals([list(), own.desiredOptions], [[], {}]);
});

Deno.test("with manifests, the addresses of the machine are followed all the same", async () => {
  const { own, clock, state } = ownPorts(undefined);
  const stop = new AbortController();
  let changes = 0;
  const following = own.follow(() => changes++, stop.signal);
  state.vips.push("192.0.2.9");
  await clock.advance(30_000);
  assertEquals(changes, 1);
  stop.abort();
  await following;
});

Deno.test("all addresses that a name had in the last hour count", async () => {
  const { own, list, clock, names } = ownPorts("https://api.example:6443", {
    "api.example": ["192.0.2.6", "2001:db8::6"],
  });
  await own.look();
  assertEquals(list(), ["192.0.2.6 6443", "2001:db8::6 6443", "* 10256"]);
  names["api.example"] = ["192.0.2.7"];
  await clock.advance(60_000);
  assertEquals(await own.look(), true);
  assertEquals(list(), ["192.0.2.6 6443", "2001:db8::6 6443", "192.0.2.7 6443", "* 10256"]);
  await clock.advance(3_600_000);
  assertEquals(await own.look(), true);
  assertEquals(list(), ["192.0.2.7 6443", "* 10256"]);
  delete names["api.example"];
  await clock.advance(7_200_000);
  assertEquals(await own.look(), false);
  assertEquals(list(), ["192.0.2.7 6443", "* 10256"]);
});

Deno.test("a name that cannot be resolved is tried again each second", async () => {
  const { own, list, clock, names, state } = ownPorts("https://api.example:6443");
  const stop = new AbortController();
  let changes = 0;
  const following = own.follow(() => changes++, stop.signal);
  await clock.advance(1_000);
  assertEquals([changes, list()], [0, ["* 10256"]]);
  names["api.example"] = ["192.0.2.6"];
  await clock.advance(1_000);
  assertEquals([changes, list()], [1, ["192.0.2.6 6443", "* 10256"]]);
  state.server = "https://192.0.2.9:6443";
  await clock.advance(30_000);
  assertEquals([changes, list()], [2, ["192.0.2.6 6443", "192.0.2.9 6443", "* 10256"]]);
  stop.abort();
  await following;
});

Deno.test("an address that comes is a change, but not a link-local one", async () => {
  const { own, state } = ownPorts("https://192.0.2.6:6443");
  await own.look();
  state.vips.push("203.0.113.50");
  assertEquals([await own.look(), await own.look()], [true, false]);
  state.vips.push("fe80::2");
  assertEquals(await own.look(), false);
});

Deno.test("sockets count where root's programs or privileged ports receive new packets", async () => {
  const { own, proc } = ownPorts("https://192.0.2.6:6443");
  const line = (at: string, state: string, uid: number) =>
    `   0: ${at} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  ${uid}  0 1066 1 0 100 0 0 10 0`;
  proc["/proc/net/tcp"] = [
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
    line("00000000:0016", "0A", 0),
    line("0100A8C0:00B3", "0A", 118),
    line("00000000:1F90", "0A", 1000),
    line("0100A8C0:0016", "01", 0),
    line("00000000:0050", "0A", 0),
  ];
  proc["/proc/net/tcp6"] = [line("B80D0120000000000000000001000000:280A", "0A", 0)];
  proc["/proc/net/udp"] = [line("00000000:2118", "07", 0), line("0100A8C0:C000", "01", 0)];
  assertEquals(await own.look(), true);
  assertEquals(own.desiredOptions.listeningSockets?.(), [
    { protocol: "tcp", address: "0.0.0.0", port: 22 },
    { protocol: "tcp", address: "192.168.0.1", port: 179 },
    { protocol: "udp", address: "0.0.0.0", port: 8472 },
    { protocol: "tcp", address: "2001:db8::1", port: 10250 },
  ]);
});
