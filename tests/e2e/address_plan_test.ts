/** Address plans that overlap: pods, nodes and the API server inside a ServiceCIDR. */
import { assertEquals } from "@std/assert";
import { Forwarder } from "../support/forward.ts";
import { addAddress, NODE } from "../support/topology.ts";
import { testCase } from "./case.ts";
import {
  ADDRESSES,
  type Addresses,
  type Manifest,
  service,
  slice,
  TARGET_PORT,
} from "./cluster.ts";
import { type Flow, nodePortFlow } from "./flow.ts";
import { Stage } from "./stage.ts";
import { serviceCIDR } from "../support/cluster.ts";

/** A connection to the port on which an endpoint listens, not to a Service. */
function direct(a: Addresses, to: "local1" | "remote1") {
  return { from: "node", to: a[to], port: TARGET_PORT } as const;
}

for (const mode of ["nftables", "iptables"] as const) {
  testCase(`a Service reaches its endpoints inside a ServiceCIDR, ${mode}`, (a) => ({
    objects: [
      serviceCIDR({ name: "wide", cidrs: [a.clusterCIDR] }),
      service(a, { spec: { type: "NodePort" } }),
      slice(a, ["local1", "remote1"]),
    ],
    // Of the pods' ranges, only the one of this node is known.
    config: { mode, clusterCIDR: a.podCIDR },
    flows: [
      { from: "pod", to: a.clusterIP, reaches: ["local1", "remote1"] },
      { from: "node", to: a.clusterIP, reaches: ["local1", "remote1"], masqueraded: true },
      nodePortFlow(a, { from: "client", reaches: ["local1", "remote1"], masqueraded: true }),
      { ...direct(a, "local1"), reaches: ["local1"] },
      { ...direct(a, "remote1"), reaches: mode === "nftables" ? "drop" : ["remote1"] },
      { from: "pod", to: a.unallocated, reaches: mode === "nftables" ? "drop" : "world" },
    ],
  }));
}

const a = ADDRESSES[4];
/** Holds the hosts `remote1`, where the API server is, and `remote2`. */
const WIDE = serviceCIDR({ name: "wide", cidrs: [a.clusterCIDR] });
const WEB = [service(a), slice(a, ["local1"])];

/** A stage whose node reaches the API server at `remote1`, by that address or by a name. */
async function remoteServer(
  mode: string,
  { server = a.remote1, objects = [] }: {
    readonly server?: string;
    readonly objects?: readonly Manifest[];
  } = {},
): Promise<{ readonly stage: Stage } & AsyncDisposable> {
  await using resources = new AsyncDisposableStack();
  const config = { mode, clusterCIDR: a.podCIDR };
  const stage = resources.use(await Stage.create({ objects: [...WEB, ...objects], config }));
  const { port = 0 } = stage.api.options;
  resources.use(new Forwarder(stage.network, { host: "remote1", address: a.remote1, port }));
  // `ip netns exec` puts these files in the place of those in /etc.
  const folder = hostsFolder(stage);
  await Deno.mkdir(folder, { recursive: true });
  resources.defer(() => Deno.remove(folder, { recursive: true }));
  await nameAddress(stage, a.remote1);
  await stage.nameServer(server);
  const disposed = resources.move();
  return { stage, [Symbol.asyncDispose]: () => disposed.disposeAsync() };
}

function hostsFolder({ network }: Stage): string {
  return `/etc/netns/${network.namespaceOf(NODE)}`;
}

/** Gives the API server's name this address in the node. */
async function nameAddress(stage: Stage, address: string): Promise<void> {
  const hosts = `127.0.0.1 localhost\n${address} ${SERVER_NAME}\n`;
  await Deno.writeTextFile(`${hostsFolder(stage)}/hosts`, hosts);
}

const SERVER_NAME = "api.cluster.example";

const WARNING = /WARN the ServiceCIDR 10\.244\.0\.0\/16 contains the API server 10\.244\.1\.11, /;

/** New connections reach the API server's machine, and no address that is nobody's. */
function serverFlows(mode: string): Flow[] {
  const guarded = mode === "nftables" ? "drop" : ["remote2"] as const;
  return (["node", "pod"] as const).flatMap((from): Flow[] => [
    { from, to: a.remote1, port: TARGET_PORT, reaches: ["remote1"] },
    { from, to: a.remote2, port: TARGET_PORT, reaches: guarded },
  ]);
}

for (const mode of ["nftables", "iptables"] as const) {
  for (const server of [a.remote1, SERVER_NAME]) {
    Deno.test(`the API server ${server} inside a ServiceCIDR stays within reach, ${mode}`, async () => {
      await using remote = await remoteServer(mode, { server, objects: [WIDE] });
      const { stage } = remote;
      await using signpost = stage.start();
      await stage.flowsBecome(signpost, serverFlows(mode));
      await signpost.waitForLog(WARNING);
      await stage.api.stop();
      await stage.api.start();
      stage.apply(slice(a, ["local2"]));
      await stage.flowsBecome(signpost, [{ from: "pod", to: a.clusterIP, reaches: ["local2"] }]);
    });
  }

  Deno.test(`a later ServiceCIDR does not cut the API server off, ${mode}`, async () => {
    await using remote = await remoteServer(mode);
    const { stage } = remote;
    await using signpost = await stage.startSynced();
    stage.apply(WIDE);
    await stage.flowsBecome(signpost, serverFlows(mode));
    await signpost.waitForLog(WARNING);
    await stage.api.stop();
    await stage.api.start();
    stage.apply(slice(a, ["local2"]));
    await stage.flowsBecome(signpost, [{ from: "pod", to: a.clusterIP, reaches: ["local2"] }]);
  });
}

Deno.test("another address of the API server's name is accepted", async () => {
  await using remote = await remoteServer("nftables", { server: SERVER_NAME, objects: [WIDE] });
  const { stage } = remote;
  await using signpost = await stage.startSynced();
  await stage.flowsBecome(signpost, serverFlows("nftables"));
  const last = { from: NODE, address: a.remote1, port: TARGET_PORT };
  const connection = await stage.network.stay(last);
  await nameAddress(stage, a.remote2);
  await stage.flowsBecome(signpost, [
    { from: "node", to: a.remote1, port: TARGET_PORT, reaches: ["remote1"] },
    { from: "node", to: a.remote2, port: TARGET_PORT, reaches: ["remote2"] },
  ]);
  assertEquals(await connection.exchange("still open"), "still open");
});

for (const mode of ["nftables", "iptables"] as const) {
  Deno.test(`the API server is served at the kubeconfig's load balancer, ${mode}`, async () => {
    await using stage = await Stage.create({ objects: WEB, config: { mode } });
    const { network } = stage;
    const { port = 0 } = stage.api.options;
    // Another node announces the address until signpost serves it here.
    await network.ip("remote1", [addAddress(a.loadBalancer, "eth0")]);
    await network.ip(NODE, [`route add ${a.loadBalancer} dev remote1`]);
    const at = (address: string) => new Forwarder(network, { host: "remote1", address, port });
    await using _announcer = at(a.loadBalancer);
    await using _server = at(a.remote1);
    await stage.nameServer(a.loadBalancer);
    const ports = [{ name: "api", protocol: "TCP", port }];
    const spec = { type: "LoadBalancer", clusterIP: a.clusterIP2, ports };
    stage.apply(
      service(a, { name: "vip", spec, ingress: [{ ip: a.loadBalancer }] }),
      slice(a, ["remote1"], { service: "vip", ports }),
    );
    await using signpost = await stage.startSynced();
    await stage.api.stop();
    await network.ip("remote1", [`addr del ${a.loadBalancer}/32 dev eth0`]);
    await stage.api.start();
    const request = { from: "client", address: a.loadBalancer, port };
    // The server answers with an alert of TLS.
    assertEquals((await network.request(request, "no TLS\r\n\r\n")).at(0), "\x15");
    stage.apply(slice(a, ["local2"]));
    await stage.flowsBecome(signpost, [{ from: "pod", to: a.clusterIP, reaches: ["local2"] }]);
  });
}
