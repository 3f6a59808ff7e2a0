/**
 * A Service asks for the API server's own address: the daemon must not be locked out of the place
 * that tells when the Service goes.
 */
import { assertEquals } from "@std/assert";
import { Forwarder } from "../../support/forward.ts";
import { NODE } from "../../support/topology.ts";
import { ADDRESSES, type Manifest, service, slice } from "../cluster.ts";
import { Stage, StateFile } from "../stage.ts";
import { sideBySide } from "../../support/side_by_side.ts";

const test = sideBySide("hostile Services and the API server");

const a = ADDRESSES[4];

/** Has the node reach the API server at an address of its own. */
async function move(stage: Stage): Promise<AsyncDisposable> {
  const { port = 0 } = stage.api.options;
  await stage.nameServer(a.node);
  return new Forwarder(stage.network, { host: NODE, address: a.node, port });
}

/** A Service without endpoints, whose traffic is rejected, on the API server's address. */
function thief(stage: Stage): Manifest {
  const { port } = stage.api.options;
  return service(a, {
    name: "thief",
    spec: {
      clusterIP: a.clusterIP2,
      externalIPs: [a.node],
      ports: [{ protocol: "TCP", port, name: "api" }, { protocol: "TCP", port: 81, name: "http" }],
    },
  });
}

/** Returns true if the rules know the node's address with a TCP port. */
async function isFrontend(stage: Stage, port: number | undefined): Promise<boolean> {
  const table = await stage.network.run(NODE, ["nft", "list", "table", "inet", "signpost"]);
  return table.includes(`${a.node} . tcp . ${port} `);
}

const WEB = service(a);

test("a Service on the API server's address does not lock the daemon out", async () => {
  await using stage = await Stage.create({ objects: [WEB, slice(a, ["local1"])] });
  await using _server = await move(stage);
  stage.apply(thief(stage));
  await using signpost = await stage.startSynced();
  await signpost.waitForLog(/shop\/thief does not get.*the API server/);
  const { port } = stage.api.options;
  assertEquals([await isFrontend(stage, port), await isFrontend(stage, 81)], [false, true]);

  await stage.api.stop();
  await stage.api.start();
  stage.remove("Service", "shop/thief");
  stage.apply(slice(a, ["local2"]));
  await stage.flowsBecome(signpost, [{ from: "pod", to: a.clusterIP, reaches: ["local2"] }]);
  await stage.tableBecomesExpected(signpost);
});

test("a state file's Service on the API server's address is not used at boot", async () => {
  await using state = await StateFile.create();
  await using stage = await Stage.create({ objects: [WEB, slice(a, ["local1"])] });
  stage.apply(thief(stage));
  // While the server is elsewhere, the address is like any other.
  await using first = await stage.startSynced(state.args);
  const { port } = stage.api.options;
  assertEquals(await isFrontend(stage, port), true);
  await first.stop();

  await using _server = await move(stage);
  await stage.api.stop();
  await stage.network.run(NODE, ["nft", "flush", "ruleset"]);
  await using second = await stage.startSynced(state.args);
  await second.waitForLog(/no rules are in the kernel: writing the rules of the state file/);
  await stage.api.start();
  stage.apply(slice(a, ["local2"]));
  await stage.flowsBecome(second, [{ from: "pod", to: a.clusterIP, reaches: ["local2"] }]);
});
