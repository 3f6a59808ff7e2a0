/**
 * signpost with Kubernetes' own API servers, as the user of kube-proxy.
 *
 * The programs `dist/kube-apiserver*` are taken, or those in the folder that `KUBE_APISERVER_FOLDER` names;
 * CONTRIBUTING.md says how they are built. Without them nothing is tried.
 */
import { assertEquals } from "@std/assert";
import type { CheckReport } from "../../lib/cli/check.ts";
import type { ApiObject } from "../support/api_store.ts";
import { makeCertificates } from "../support/certificates.ts";
import { Forwarder } from "../support/forward.ts";
import { RealApiServer, versionOf } from "../support/real_api_server.ts";
import { runSignpost, Signpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { createCluster } from "./case.ts";
import {
  ADDRESSES,
  clusterObjects,
  configuration,
  type Manifest,
  service,
  slice,
} from "./cluster.ts";
import { assertFlows, type Flow } from "./flow.ts";

const FOLDER = Deno.env.get("KUBE_APISERVER_FOLDER") ??
  new URL("../../dist", import.meta.url).pathname;
const PROGRAMS = (await Array.fromAsync(Deno.readDir(FOLDER)).catch(() => []))
  .filter(({ name }) => name.startsWith("kube-apiserver")).map(({ name }) => `${FOLDER}/${name}`);

const A = ADDRESSES[4];
const NAMESPACE = { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } };
const NODE_OBJECT = clusterObjects(A).filter(({ kind }) => kind === "Node");

/** Tries one API server, by protobuf or JSON. */
async function tryServer(program: string, contentType: string): Promise<void> {
  await using resources = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "signpost-e2e-" });
  resources.defer(() => Deno.remove(folder, { recursive: true }));
  const network = resources.use(await createCluster());
  const server = resources.use(await RealApiServer.start(program, await makeCertificates(folder)));
  resources.use(new Forwarder(network, { host: NODE, port: server.port }));
  const put = async (...objects: readonly Manifest[]) => {
    for (const object of objects) await server.put(object as unknown as ApiObject);
  };
  await put(NAMESPACE, ...NODE_OBJECT, service(A), slice(A, ["local1"]));

  const kubeconfig = `${folder}/kubeconfig`;
  await Deno.writeTextFile(kubeconfig, server.kubeconfig());
  const clientConnection = { kubeconfig, contentType, acceptContentTypes: contentType };
  const config = configuration(A, { clientConnection });
  await Deno.writeTextFile(`${folder}/config.yaml`, JSON.stringify(config));
  const args = ["--config", `${folder}/config.yaml`, "--state-file", "", "--socket", "", "-v", "2"];
  const signpost = resources.use(Signpost.start(network, args));
  const become = (flow: Omit<Flow, "from">) =>
    signpost.until(JSON.stringify(flow), async () => {
      await assertFlows(network, [{ from: "pod", ...flow }], { patience: 1_000 });
      return true;
    });

  await become({ to: A.clusterIP, reaches: ["local1"] });
  await put(slice(A, ["remote1"]));
  await become({ to: A.clusterIP, reaches: ["remote1"] });

  const path = "/apis/networking.k8s.io/v1/servicecidrs";
  const hasServiceCidrs = (await server.request("GET", path)).status === 200;
  await become({ to: A.unallocated, reaches: hasServiceCidrs ? "drop" : "world" });

  await signpost.until("an Event", async () => {
    const { text } = await server.request("GET", "/apis/events.k8s.io/v1/events");
    return text.includes('"reportingController":"signpost"') && text.includes('"Starting"');
  });
  const check = await runSignpost(network, ["check", ...args.slice(0, 2), "-o", "json"]);
  const { findings } = JSON.parse(check.stdout) as CheckReport;
  assertEquals(findings.filter(({ severity }) => severity === "error"), []);

  await server.remove("Service", "web");
  await become({ to: A.clusterIP, reaches: hasServiceCidrs ? "drop" : "world" });
}

if (PROGRAMS.length === 0) {
  Deno.test("without kube-apiserver nothing is tried", () => {
    // deno-lint-ignore no-console
    console.log(`no kube-apiserver in ${FOLDER}: signpost is not tried with it`);
  });
}
for (const program of PROGRAMS) {
  const version = await versionOf(program);
  for (const type of ["application/vnd.kubernetes.protobuf", "application/json"]) {
    Deno.test(`flows follow the API server of ${version} over ${type}`, () =>
      tryServer(program, type));
  }
}
