/**
 * The API servers of Kubernetes 1.21 (EndpointSlice v1) and newer, each with what it cannot do yet:
 * every kind is read from all of them.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { KINDS } from "../../../lib/model/cluster/objects.ts";
import { createHttpClient } from "../../../lib/system/http_client.ts";
import { ApiServer, type ApiServerOptions } from "../../support/api_server.ts";
import type { ApiObject, ApiStore } from "../../support/api_store.ts";
import { makeCertificates } from "../../support/certificates.ts";
import { eventually } from "../../support/eventually.ts";
import { makeFolder } from "../../support/folder.ts";
import { service, withWatch } from "./watch_fixture.ts";

/** Abilities that servers lack, with the version that brings them. */
const SERVERS: Readonly<Record<string, ApiServerOptions>> = {
  "that streams no lists (before 1.32, where a cluster turned it off)": {
    streamingLists: "refuse",
  },
  "behind a proxy that does not mark the end of streaming lists": { streamingLists: "ignore" },
  "that has no ServiceCIDRs (before 1.33)": { serviceCIDRs: false },
  "that is asked through something that speaks JSON only": { protobuf: false },
  "of Kubernetes 1.21": { streamingLists: "refuse", serviceCIDRs: false },
  "that can do none of this": { streamingLists: "ignore", serviceCIDRs: false, protobuf: false },
};

function headless(name: string): ApiObject {
  return { ...service(name, "1"), spec: { clusterIP: "None" } };
}

function fill(store: ApiStore): void {
  store.put(headless("headless"));
  store.put({ kind: "EndpointSlice", metadata: { name: "a-1" } });
  store.put({ kind: "Node", metadata: { name: "node-1" } });
  store.put({ kind: "Node", metadata: { name: "node-2" } });
  store.put({ kind: "ServiceCIDR", metadata: { name: "kubernetes" } });
}

for (const [which, options] of Object.entries(SERVERS)) {
  Deno.test(`a server ${which} is read and followed`, async () => {
    await withWatch({
      kinds: KINDS,
      server: options,
      limits: { quiet: 100 },
      early: ({ store }) => fill(store),
    }, async ({ server, sink }) => {
      const keys = () => KINDS.map((kind) => [...sink.state.get(kind)?.keys() ?? ["none yet"]]);
      const cidrs = options.serviceCIDRs === false ? [] : ["kubernetes"];
      const nodes = ["node-1"];
      const expected = {
        Service: ["default/a"],
        EndpointSlice: ["default/a-1"],
        Node: nodes,
        ServiceCIDR: cidrs,
      };
      const first = KINDS.map((kind) => expected[kind]);
      await eventually("all kinds", () => JSON.stringify(keys()) === JSON.stringify(first));
      server.store.put(headless("a"));
      server.store.put(headless("b"));
      server.store.put(service("c", "1"));
      await eventually("the change", () => sink.version("Service", "default/c") === "1");
      assertEquals([...sink.state.get("Service")?.keys() ?? []], ["default/c"]);
      assertEquals(sink.lost, []);
    });
  });
}

Deno.test("after a silence, the address of a name that takes connections is used", async () => {
  await using folder = await makeFolder("addresses");
  const certificates = await makeCertificates(folder.path);
  // The system leads the name to 127.0.0.1, where no server is.
  await using server = new ApiServer({ certificates, host: "127.0.0.2" });
  await server.start();
  const http = createHttpClient({ resolve: () => Promise.resolve(["127.0.0.2", "127.0.0.3"]) });
  const tls = { certificate: undefined, key: undefined, serverName: undefined, verify: true };
  const ask = async () => {
    const { status, body } = await http.request({
      method: "GET",
      url: new URL(`https://localhost:${server.options.port}/version`),
      headers: {},
      tls: { ...tls, authorities: [certificates.authority] },
      signal: new AbortController().signal,
    });
    await Array.fromAsync(body);
    return status;
  };
  await assertRejects(ask);
  http.close();
  assertEquals([await ask(), await ask()], [200, 200]);
  await server.stop();
  await assertRejects(ask, Error, "127.0.0.2");
  // Without an answer, the system chooses again.
  await assertRejects(ask, Error, "tcp connect error");
  http.close();
});
