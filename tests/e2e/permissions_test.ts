import { assertEquals, assertMatch } from "@std/assert";
import { ApiServer, type ApiServerOptions } from "../support/api_server.ts";
import { makeCertificates } from "../support/certificates.ts";
import { execute } from "../support/command.ts";
import { signpostCommand } from "../support/signpost.ts";
import { Stage, syncs } from "./stage.ts";

/** Tries what its argument says, with the permissions that signpost has; prints how that ended. */
const ATTEMPTS = `
const place = Deno.args[0];
const attempts = {
  "write a file": () => Deno.writeTextFile(place + "/new", ""),
  "write into /etc": () => Deno.writeTextFile("/etc/signpost-test", ""),
  "write beside the state folder": () => Deno.writeTextFile("/var/lib/signpost-test", ""),
  "write a kernel setting": () => Deno.writeTextFile("/proc/sys/net/ipv4/ip_forward", "1"),
  "make a folder": () => Deno.mkdir(place + "/folder"),
  "remove a file": () => Deno.remove(place + "/old"),
  "rename a file": () => Deno.rename(place + "/old", place + "/other"),
  "change a mode": () => Deno.chmod(place + "/old", 0o777),
  "make a link": () => Deno.symlink("/etc/passwd", place + "/link"),
  "run a shell": () => new Deno.Command("sh", { args: ["-c", "true"] }).output(),
  "run a program by its path": () => new Deno.Command("/bin/true").output(),
  "run a program of nft's name elsewhere": () => new Deno.Command(place + "/nft").output(),
  "run signpost's runtime": () => new Deno.Command(Deno.execPath(), { args: ["--version"] }).output(),
  "load a library": () => Deno.dlopen("libc.so.6", {}),
  "run nft": () => new Deno.Command("nft", { args: ["--version"] }).output(),
  "read a file": () => Deno.readTextFile(place + "/old"),
  "read a variable that is not its own": () => ofEnvironment(Deno.env.get("HOME")),
  "read all variables": () => ofEnvironment(Deno.env.toObject().HOME),
  "read hashes of passwords": () => Deno.readTextFile("/etc/shadow"),
  "read keys of the node": () => Deno.readTextFile("/etc/ssh/ssh_host_ed25519_key"),
  "read keys of root": () => Deno.readTextFile("/root/.ssh/id_ed25519"),
  "read the memory of the machine": () => Deno.systemMemoryInfo(),
  "read its own variable": () => ofEnvironment(Deno.env.get("PATH")),
};
function ofEnvironment(value) {
  if (value === undefined) throw new Deno.errors.NotCapable("it is not told");
}
const results = {};
for (const [name, attempt] of Object.entries(attempts)) {
  try {
    await attempt();
    results[name] = "done";
  } catch (error) {
    results[name] = error.name;
  }
}
console.log(JSON.stringify(results));
`;

/** Needed by signpost, and harmless. */
const ALLOWED = new Set(["run nft", "read a file", "read its own variable"]);

Deno.test("with signpost's permissions nothing else can be written or run", async () => {
  const folder = await Deno.makeTempDir({ prefix: "signpost-e2e-" });
  try {
    await Deno.writeTextFile(`${folder}/old`, "");
    await Deno.writeTextFile(`${folder}/nft`, "#!/bin/sh\n", { mode: 0o755 });
    await Deno.writeTextFile(`${folder}/attempts.ts`, ATTEMPTS);
    const config = new URL("../../deno.json", import.meta.url).pathname;
    const { code, stdout, stderr } = await execute(
      [Deno.execPath(), "run", "-P", "--config", config, `${folder}/attempts.ts`, folder],
    );
    assertEquals(code, 0, stderr);
    const results: Record<string, string> = JSON.parse(stdout);
    for (const [attempt, result] of Object.entries(results)) {
      assertEquals(result, ALLOWED.has(attempt) ? "done" : "NotCapable", attempt);
    }
    const left = (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name).sort();
    assertEquals(left, ["attempts.ts", "nft", "old"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a state file elsewhere is not written", async () => {
  await using stage = await Stage.create();
  const path = `${stage.folder}/state.json.gz`;
  await using signpost = await stage.startSynced(["--state-file", path]);
  assertEquals(syncs(signpost, "full"), 1);
  await signpost.stop();
  assertMatch(signpost.log, /WARN the state file is not written: .*writable/);
  assertEquals(
    (await Array.fromAsync(Deno.readDir(stage.folder))).some(({ name }) =>
      name.startsWith("state")
    ),
    false,
  );
});

/** Each way of a kubeconfig to trust the server and to be trusted. */
const TLS_KINDS: Readonly<
  Record<string, {
    readonly cluster?: Readonly<Record<string, unknown>>;
    readonly user?: Readonly<Record<string, unknown>>;
    readonly server?: Partial<ApiServerOptions>;
  }>
> = {
  "the authorities of the machine": {},
  "an authority": { cluster: { "certificate-authority": "ca.crt" } },
  "a server name": {
    cluster: { "certificate-authority": "ca.crt", "tls-server-name": "localhost" },
  },
  "a server name and the authorities of the machine": {
    cluster: { "tls-server-name": "localhost" },
  },
  "no verification": { cluster: { "insecure-skip-tls-verify": true } },
  "a client certificate": {
    cluster: { "certificate-authority": "ca.crt" },
    user: { "client-certificate": "client.crt", "client-key": "client.key" },
    server: { requireClientCertificate: true },
  },
  "a client certificate without verification": {
    cluster: { "insecure-skip-tls-verify": true },
    user: { "client-certificate": "client.crt", "client-key": "client.key" },
    server: { requireClientCertificate: true },
  },
  "a token": {
    cluster: { "certificate-authority": "ca.crt" },
    user: { token: "secret" },
    server: { token: "secret" },
  },
};

Deno.test("the API server is reached by each kind of TLS", async (test) => {
  const folder = await Deno.makeTempDir({ prefix: "signpost-e2e-" });
  try {
    const certificates = await makeCertificates(folder);
    for (const [kind, { cluster, user = {}, server }] of Object.entries(TLS_KINDS)) {
      await test.step(kind, async () => {
        const api = new ApiServer({ certificates, ...server });
        await api.start();
        try {
          const kubeconfig = JSON.parse(api.kubeconfig(user));
          kubeconfig.clusters[0].cluster = { server: api.url, ...cluster };
          await Deno.writeTextFile(`${folder}/kubeconfig`, JSON.stringify(kubeconfig));
          const { code, stderr } = await execute([
            "timeout",
            "60",
            ...signpostCommand(),
            ...["--once", "--hostname-override=node-1", `--kubeconfig=${folder}/kubeconfig`],
          ], { env: { SSL_CERT_FILE: certificates.files.authority } });
          assertEquals(code, 0, stderr);
        } finally {
          await api.stop();
        }
      });
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
