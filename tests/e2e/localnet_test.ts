import { assertEquals } from "@std/assert";
import { httpGet } from "../support/http.ts";
import type { Network } from "../support/network.ts";
import { NODE } from "../support/topology.ts";
import { NODE_PORT } from "./cluster.ts";
import { HandOverStage } from "./hand_over_stage.ts";
import { sideBySide } from "../support/side_by_side.ts";

const test = sideBySide("route_localnet");

const SETTING = "net.ipv4.conf.all.route_localnet";
const NEIGHBOUR = "client";
const PORT = 10249;

/** A node with something that listens on 127.0.0.1 only, and a neighbour that sends there. */
async function createStage(config: Record<string, unknown> = {}): Promise<HandOverStage> {
  await using resources = new AsyncDisposableStack();
  const stage = resources.use(await HandOverStage.create(config));
  const { network } = stage;
  network.serve(NODE, { protocol: "tcp", port: PORT, address: "127.0.0.1" });
  await network.run(NEIGHBOUR, ["sysctl", "-q", "-w", `${SETTING}=1`]);
  await network.run(NEIGHBOUR, ["ip", "address", "flush", "dev", "lo", "scope", "host"]);
  const route = await network.run(NEIGHBOUR, ["ip", "-4", "route", "show", "default"]);
  const [, rest = ""] = /^default (.*?)\s*$/m.exec(route) ?? [];
  await network.run(NEIGHBOUR, ["ip", "route", "add", "127.0.0.0/8", ...rest.split(" ")]);
  resources.move();
  return stage;
}

/** Returns the neighbour's answer, or silence. */
async function neighbour(network: Network): Promise<string> {
  await network.flushConntrack();
  const request = { from: NEIGHBOUR, address: "127.0.0.1", port: PORT };
  const [outcome] = await network.connect(request);
  return outcome?.type ?? "";
}

async function setting({ network }: HandOverStage): Promise<string> {
  return (await network.run(NODE, ["sysctl", "-n", SETTING])).trim();
}

async function set({ network }: HandOverStage, value: string): Promise<void> {
  await network.run(NODE, ["sysctl", "-q", "-w", `${SETTING}=${value}`]);
}

test("a neighbour reaches localhost without rules: the test sees it", async () => {
  await using stage = await createStage();
  assertEquals(await neighbour(stage.network) === "answer", false);
  await set(stage, "1");
  assertEquals(await neighbour(stage.network), "answer");
});

for (const mode of ["nftables", "iptables"] as const) {
  test(`${mode} mode keeps neighbours from localhost beside route_localnet`, async () => {
    await using stage = await createStage({ iptables: { localhostNodePorts: false } });
    await set(stage, "1");
    await using signpost = await stage.startSynced(mode);
    assertEquals(await neighbour(stage.network), "drop");
    assertEquals(await setting(stage), "1");
    if (mode === "nftables") {
      await signpost.waitForLog(/ INFO .*route_localnet is 1 and no node port needs it/);
    }
  });
}

test("what iptables mode has set is guarded, in nftables mode, too", async () => {
  await using stage = await createStage();
  {
    await using signpost = await stage.startSynced("iptables");
    await signpost.until("the setting", async () => await setting(stage) === "1");
    assertEquals(await neighbour(stage.network), "drop");
    await signpost.stop();
  }
  assertEquals(await neighbour(stage.network), "drop");
  await using signpost = await stage.startSynced("nftables");
  await signpost.waitForLog(/ INFO .*route_localnet is 1 and no node port needs it/);
  assertEquals(await neighbour(stage.network), "drop");
});

test("in iptables mode the word localhost of nodePortAddresses opens 127.0.0.1", async () => {
  for (const [word, isServed] of [["localhost", true], ["primary", false]] as const) {
    await using stage = await createStage({ nodePortAddresses: [word] });
    await using _signpost = await stage.startSynced("iptables");
    const at127 = { from: NODE, address: "127.0.0.1", port: NODE_PORT } as const;
    const [outcome] = await stage.network.connect(at127);
    assertEquals(outcome?.type === "answer", isServed, word);
  }
});

test("in iptables mode the metrics count packets to node ports on localhost", async () => {
  // The usual port is taken here.
  const port = 20249;
  await using stage = await createStage({ metricsBindAddress: `127.0.0.1:${port}` });
  const { network } = stage;
  await using signpost = await stage.startSynced("iptables");
  const name = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total";
  const read = async () => {
    const where = { from: NODE, source: "127.0.0.1", address: "127.0.0.1", port };
    const { body } = await httpGet(network, { ...where, path: "/metrics" });
    return new RegExp(`^${name} (\\d+)$`, "m").exec(body)?.[1];
  };
  await signpost.until("the setting", async () => await setting(stage) === "1");
  const [outcome] = await network.connect({ from: NODE, address: "127.0.0.1", port: NODE_PORT });
  assertEquals(outcome?.type, "answer");
  await signpost.until("the packet", async () => await read() === "1");
});
