import { assertEquals } from "@std/assert";
import { OwnPorts } from "../../../lib/daemon/objects/own_ports.ts";
import { ManualClock } from "../../support/clock_and_log.ts";

/** Own ports of a daemon with this API server, and the names that its machine knows. */
function ownPorts(
  server: string | undefined,
  names: Record<string, readonly string[]> = {},
) {
  const clock = new ManualClock();
  const state = { server, healthz: "0.0.0.0:10256", vips: [] as string[] };
  const runtime = {
    clock,
    addresses: () => ["192.0.2.1", ...state.vips],
    resolve: (host: string) =>
      names[host] ? Promise.resolve(names[host]) : Promise.reject(new Error("no such host")),
  };
  const own = new OwnPorts({
    configuration: { healthzBindAddress: state.healthz },
    locate: server === undefined ? undefined : () => Promise.resolve(new URL(state.server ?? "")),
    runtime,
  });
  const list = () =>
    (own.around.ownPorts?.() ?? []).map(({ address, port }) => `${address ?? "*"} ${port}`);
  return { own, list, clock, state, names };
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
    assertEquals(own.around.ownAddresses?.(), ["192.0.2.1"]);
  }
});

Deno.test("manifests keep no port for the daemon", async () => {
  const { own, list } = ownPorts(undefined);
  assertEquals(await own.look(), false);
  assertEquals([list(), own.around], [[], {}]);
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

Deno.test("of a name all addresses count, and those of the last hour, whatever a later look finds", async () => {
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

Deno.test("a name that cannot be resolved is tried again each second, a known one follows the kubeconfig", async () => {
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
