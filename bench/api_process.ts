/**
 * The test API server as a process of its own, so that its work is not the bench's. All objects
 * are serialised before it says that it is ready.
 *
 * Arguments: folder for certificates and kubeconfig, number of Services, endpoints of each. It
 * writes one line when it is ready, takes objects that are added or changed as lines of JSON; it
 * ends with its standard input.
 *
 * @module
 */
import { TextLineStream } from "./text_lines.ts";
import { COLLECTIONS } from "../tests/support/api_store.ts";
import { ApiServer } from "../tests/support/api_server.ts";
import { makeCertificates } from "../tests/support/certificates.ts";
import { clusterObjects } from "./cluster.ts";

async function serve(folder: string, services: number, endpoints: number): Promise<void> {
  const certificates = await makeCertificates(folder);
  const server = new ApiServer({ certificates, requireClientCertificate: true });
  for (const object of clusterObjects({ services, endpoints })) server.store.put(object);
  for (const { kind } of COLLECTIONS) {
    for (const stored of server.store.list(kind)) void stored.protobuf;
  }
  await server.start();
  const { clientCertificate, clientKey } = certificates.files;
  await Deno.writeTextFile(
    `${folder}/kubeconfig`,
    server.kubeconfig({ "client-certificate": clientCertificate, "client-key": clientKey }),
  );
  await Deno.stdout.write(new TextEncoder().encode("ready\n"));
  const lines = Deno.stdin.readable
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new TextLineStream());
  for await (const line of lines) server.store.put(JSON.parse(line));
  await server.stop();
}

if (import.meta.main) {
  const [folder = "", services, endpoints] = Deno.args;
  await serve(folder, Number(services), Number(endpoints));
}
