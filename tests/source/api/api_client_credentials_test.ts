/** Credentials against a real TLS server: what is accepted, what is refused, what is renewed. */
import { assert, assertEquals } from "@std/assert";
import { expireAuthority, makeCertificates } from "../../support/certificates.ts";
import { eventually } from "../../support/eventually.ts";
import { service, type Watched, type WatchSetup, withWatch } from "./watch_fixture.ts";

/** Changes the cluster of the kubeconfig, which is JSON. */
async function changeCluster(folder: string, change: Readonly<Record<string, unknown>>) {
  const path = `${folder}/kubeconfig`;
  const config = JSON.parse(await Deno.readTextFile(path));
  Object.assign(config.clusters[0].cluster, change);
  await Deno.writeTextFile(path, JSON.stringify(config));
}

async function failsWith({ status, logger }: Watched, reason: string): Promise<string> {
  return await eventually(
    `failures by ${reason}`,
    () => logger.failures(reason) > 0 ? status().lastError : undefined,
  );
}

Deno.test("a renewed token file is used from the next request on", async () => {
  const early: WatchSetup["early"] = (_server, folder) =>
    Deno.writeTextFile(`${folder}/token`, "one\n");
  await withWatch(
    { early, user: { tokenFile: "token" }, server: { token: "one" } },
    async (watched) => {
      const { server, sink, folder, logger } = watched;
      server.options.token = "two";
      server.dropStreams();
      await failsWith(watched, "unauthorized");
      assert(logger.at("warn").every((line) => !/\b(one|two)\b/.test(line)), "no token in the log");
      await Deno.writeTextFile(`${folder}/token`, "two\n");
      server.store.put(service("b", "2"));
      await eventually("b is there", () => sink.version("Service", "default/b") === "2");
      assertEquals(sink.lost, []);
    },
  );
});

Deno.test("a client certificate is used again when its files change", async () => {
  const user = { "client-certificate": "client.crt", "client-key": "client.key" };
  const setup = { user, server: { requireClientCertificate: true } };
  await withWatch(setup, async (watched) => {
    const { server, sink, folder } = watched;
    const foreign = `${folder}/foreign`;
    await Deno.mkdir(foreign);
    await makeCertificates(foreign);
    const certificate = await Deno.readTextFile(`${folder}/client.crt`);
    const key = await Deno.readTextFile(`${folder}/client.key`);
    await Deno.copyFile(`${foreign}/client.crt`, `${folder}/client.crt`);
    await Deno.copyFile(`${foreign}/client.key`, `${folder}/client.key`);
    server.dropStreams();
    await eventually("it is refused", () => watched.status().state === "backoff");
    await Deno.writeTextFile(`${folder}/client.crt`, certificate);
    await Deno.writeTextFile(`${folder}/client.key`, key);
    server.store.put(service("b", "2"));
    await eventually("b is there", () => sink.version("Service", "default/b") === "2");
  });
});

Deno.test("a server of another authority is refused until the CA file says otherwise", async () => {
  const early: WatchSetup["early"] = async (_server, folder) => {
    await Deno.mkdir(`${folder}/foreign`);
    await makeCertificates(`${folder}/foreign`);
    await Deno.copyFile(`${folder}/foreign/ca.crt`, `${folder}/trusted.crt`);
    const data = { "certificate-authority-data": "", "certificate-authority": "trusted.crt" };
    await changeCluster(folder, data);
  };
  await withWatch({ early, waitForList: false }, async (watched) => {
    const error = await failsWith(watched, "connection");
    assert(/certificate|signature|issuer/i.test(error), error);
    assertEquals(watched.server.requests.length, 0, "not one request was sent");
    await Deno.copyFile(`${watched.folder}/ca.crt`, `${watched.folder}/trusted.crt`);
    await eventually("the list", () => watched.sink.events.length === 1);
  });
});

Deno.test("a server that is not who the kubeconfig names is refused", async () => {
  const early: WatchSetup["early"] = (_server, folder) =>
    changeCluster(folder, { "tls-server-name": "elsewhere.example" });
  await withWatch({ early, waitForList: false }, async (watched) => {
    await failsWith(watched, "connection");
    assertEquals(watched.server.requests.length, 0);
    await changeCluster(watched.folder, { "tls-server-name": "localhost" });
    await eventually("the list", () => watched.sink.events.length === 1);
  });
});

for (const [adapter, name] of [["fetch", ""], ["node:https", "localhost"]] as const) {
  Deno.test(`an expired authority is refused, as Go refuses it, with ${adapter}`, async () => {
    const early: WatchSetup["early"] = async (server, folder) => {
      const { certificates } = server.options;
      if (certificates) await expireAuthority(certificates);
      const data = { "certificate-authority-data": "", "certificate-authority": "expired.crt" };
      await changeCluster(folder, { ...data, "tls-server-name": name });
    };
    await withWatch({ early, waitForList: false }, async (watched) => {
      const error = await failsWith(watched, "credentials");
      assert(/expired\.crt: the certificate authority expired on 2020-01-02/.test(error), error);
      assertEquals(watched.server.requests.length, 0, "not one request was sent");
      await Deno.copyFile(`${watched.folder}/ca.crt`, `${watched.folder}/expired.crt`);
      await eventually("the list", () => watched.sink.events.length === 1);
    });
  });
}

Deno.test("a kubeconfig that breaks keeps the state", async () => {
  await withWatch({}, async (watched) => {
    const { server, folder, sink } = watched;
    const whole = await Deno.readTextFile(`${folder}/kubeconfig`);
    await Deno.writeTextFile(`${folder}/kubeconfig`, whole.slice(0, 40));
    server.dropStreams();
    const error = await failsWith(watched, "credentials");
    assert(error.startsWith(`${folder}/kubeconfig`), error);
    await Deno.writeTextFile(`${folder}/kubeconfig`, whole);
    server.store.put(service("b", "2"));
    await eventually("b is there", () => sink.version("Service", "default/b") === "2");
    assertEquals(sink.lost, []);
  });
});
