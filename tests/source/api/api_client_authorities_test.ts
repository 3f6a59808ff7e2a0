/** The authorities of a kubeconfig are the only ones that are trusted. */
import { assertEquals, assertMatch } from "@std/assert";
import { ApiServer } from "../../support/api_server.ts";
import { makeCertificates } from "../../support/certificates.ts";
import { run } from "../../support/command.ts";
import { makeFolder } from "../../support/folder.ts";

/** Asks with an authority; the machine itself trusts the other one. */
function ask(url: string, files: { readonly given: string; readonly ofTheMachine: string }) {
  const program = new URL("ask.ts", import.meta.url).pathname;
  return run([Deno.execPath(), "run", "--quiet", "-A", program, url, files.given], {
    env: { DENO_TLS_CA_STORE: "system", SSL_CERT_FILE: files.ofTheMachine },
  });
}

Deno.test("a server that only the machine trusts, not the kubeconfig, is refused", async () => {
  await using folder = await makeFolder("authorities");
  await Deno.mkdir(`${folder.path}/foreign`);
  const certificates = await makeCertificates(folder.path);
  await using server = new ApiServer({ certificates });
  const own = certificates.files.authority;
  const foreign = (await makeCertificates(`${folder.path}/foreign`)).files.authority;
  await server.start();
  const url = `${server.url}/api/v1/services`;
  assertEquals(await ask(url, { given: own, ofTheMachine: foreign }), "200");
  assertMatch(await ask(url, { given: foreign, ofTheMachine: own }), /certificate|issuer/i);
  assertEquals(server.requests.length, 1, "nothing was sent to a server that is not trusted");
});
