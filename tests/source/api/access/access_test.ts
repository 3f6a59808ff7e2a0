import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import {
  AccessError,
  type ApiAccess,
  readCredentials,
  type ReadFile,
} from "../../../../lib/source/api/access/access.ts";
import {
  inClusterAccess,
  limitReads,
  loadAccess,
  refuseClusterIPServer,
} from "../../../../lib/source/api/access/access_source.ts";
import { makeCertificates } from "../../../support/certificates.ts";
import { ManualClock } from "../../../support/clock_and_log.ts";
import { run } from "../../../support/command.ts";
import { makeFolder } from "../../../support/folder.ts";
import { ANONYMOUS } from "../fakes.ts";

const POD: Readonly<Record<string, string>> = {
  KUBERNETES_SERVICE_HOST: "10.96.0.1",
  KUBERNETES_SERVICE_PORT: "443",
  KUBERNETES_PORT: "tcp://10.96.0.1:443",
};
const pod = (name: string) => POD[name];
const nowhere = () => undefined;
const CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----";

const read = (access: ApiAccess, readFile: ReadFile) =>
  readCredentials(access, { readFile, now: () => Date.now() });

const files = (contents: Readonly<Record<string, string>>) => (path: string) => {
  const text = contents[path];
  return text === undefined
    ? Promise.reject(new Error("No such file or directory"))
    : Promise.resolve(text);
};

Deno.test("in a pod the service account is used", () => {
  const access = inClusterAccess(pod, "");
  assertEquals(access.server.href, "https://10.96.0.1/");
  const folder = "/var/run/secrets/kubernetes.io/serviceaccount";
  assertEquals(access.token, { type: "file", path: `${folder}/token` });
  assertEquals(access.certificateAuthority, { type: "file", path: `${folder}/ca.crt` });
});

Deno.test("master overrides the server of a pod", () => {
  const access = inClusterAccess(pod, "https://192.0.2.1:6443");
  assertEquals(access.server.host, "192.0.2.1:6443");
  assert(access.token);
  assertEquals(inClusterAccess(nowhere, "192.0.2.1:8080").server.href, "http://192.0.2.1:8080/");
  assertEquals(inClusterAccess(nowhere, "192.0.2.1:8080").token, undefined);
});

Deno.test("outside of a pod something must say where the API server is", () => {
  const error = assertThrows(() => inClusterAccess(nowhere, ""), AccessError);
  assert(error.message.includes("--kubeconfig, --master or --manifests"), error.message);
  assertThrows(() => inClusterAccess(nowhere, "http://"), AccessError, "--master");
});

Deno.test("a kubeconfig that cannot be read is named", async () => {
  const options = { kubeconfig: "/no/such", master: "", environment: pod, readFile: files({}) };
  const error = await assertRejects(() => loadAccess(options), AccessError);
  assertEquals(error.message, "/no/such: the kubeconfig cannot be read: No such file or directory");
});

Deno.test("the machine's authorities are trusted if none is given", async () => {
  const options = { kubeconfig: "", master: "https://192.0.2.1", environment: nowhere };
  const bundle = "/etc/pki/tls/certs/ca-bundle.crt";
  const { certificateAuthority } = await loadAccess({
    ...options,
    readFile: files({ [bundle]: CERTIFICATE }),
  });
  assertEquals(certificateAuthority, { type: "inline", text: CERTIFICATE, origin: bundle });
  await assertRejects(
    () => loadAccess({ ...options, readFile: files({}) }),
    AccessError,
    "set certificate-authority in the kubeconfig; the machine's authorities are not at /etc/ssl/",
  );
  const environment = (name: string) => name === "SSL_CERT_FILE" ? "/my.crt" : undefined;
  await assertRejects(
    () => loadAccess({ ...options, environment, readFile: files({ [bundle]: CERTIFICATE }) }),
    AccessError,
    "not at /my.crt",
  );
});

Deno.test("files are read again each time, tokens are trimmed, bundles are split", async () => {
  const access: ApiAccess = {
    ...ANONYMOUS,
    token: { type: "file", path: "token" },
    certificateAuthority: { type: "file", path: "ca" },
  };
  const bundle = `# ours\n${CERTIFICATE}\n# theirs\n${CERTIFICATE}\n`;
  const first = await read(access, files({ token: "one\n", ca: bundle }));
  assertEquals(first.authorization, "Bearer one");
  assertEquals(first.tls.authorities, [CERTIFICATE, CERTIFICATE]);
  const second = await read(access, files({ token: "two", ca: bundle }));
  assertEquals(second.authorization, "Bearer two");
});

Deno.test("files that do not hold what they should are named, their contents are not", async () => {
  const secret = "s3cret\nline";
  const cases: readonly (readonly [Partial<ApiAccess>, RegExp])[] = [
    [
      { token: { type: "file", path: "f" } },
      /^f: must hold a bearer token: one line without blanks$/,
    ],
    [{ certificateAuthority: { type: "file", path: "f" } }, /^f: must hold a PEM certificate$/],
    [{ clientKey: { type: "file", path: "f" } }, /^f: must hold a PEM private key$/],
    [{ token: { type: "file", path: "g" } }, /^g: cannot be read: No such file/],
  ];
  for (const [access, message] of cases) {
    const reading = () => read({ ...ANONYMOUS, ...access }, files({ f: secret }));
    const error = await assertRejects(reading, AccessError);
    assert(message.test(error.message), error.message);
  }
});

Deno.test("an API server at its own cluster IP is refused before anything is known", () => {
  const { server } = inClusterAccess(pod, "");
  const reason = refuseClusterIPServer(server, { environment: pod });
  assert(reason?.includes("10.96.0.1 is the cluster IP of Service default/kubernetes"), reason);
  assert(reason?.includes("Set --master or a kubeconfig"), reason);
});

Deno.test("a pod whose host variable was set to a real address may start", () => {
  const environment = (name: string) =>
    name === "KUBERNETES_SERVICE_HOST" ? "192.0.2.1" : pod(name);
  const { server } = inClusterAccess(environment, "");
  assertEquals(refuseClusterIPServer(server, { environment }), undefined);
});

Deno.test("an API server at a cluster IP of default/kubernetes is refused", () => {
  const known = { clusterIPs: ["10.96.0.1", "fd00:10::1"] };
  for (const server of ["https://10.96.0.1:6443", "https://[fd00:10::1]:443"]) {
    const reason = refuseClusterIPServer(new URL(server), known);
    assert(reason?.includes("is the cluster IP of Service default/kubernetes"), reason);
  }
  for (const server of ["https://10.96.0.2", "https://[fd00:10::2]:443", "https://api.example"]) {
    assertEquals(refuseClusterIPServer(new URL(server), known), undefined);
  }
});

Deno.test("the cluster's own name for its API server is refused", () => {
  for (
    const host of ["kubernetes", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
  ) {
    assert(refuseClusterIPServer(new URL(`https://${host}`), {}), host);
  }
  const real = new URL("https://kubernetes.example.org");
  assertEquals(refuseClusterIPServer(real, {}), undefined);
});

Deno.test("an authority that has expired, or is not valid yet, is refused by name and date", async () => {
  await using folder = await makeFolder("expired");
  const { authority } = await makeCertificates(folder.path);
  const access: ApiAccess = {
    ...ANONYMOUS,
    certificateAuthority: { type: "file", path: "ca.crt" },
  };
  const at = (days: number, text = authority) =>
    readCredentials(access, {
      readFile: files({ "ca.crt": text }),
      now: () => Date.now() + days * 86_400_000,
    });
  const { tls } = await at(1);
  assertEquals(tls.authorities?.length, 1);
  const late = await assertRejects(() => at(3), AccessError, "ca.crt: the certificate authority");
  assertMatch(late.message, /expired on \d{4}-.*Z: put a valid one there/);
  await assertRejects(() => at(-1), AccessError, "is not valid before");
  const bundle = await at(3, `${authority}\n${CERTIFICATE}\n`);
  assertEquals(bundle.tls.authorities, [CERTIFICATE], "the others of a bundle count");
  // From 2050 on, dates have another form.
  const request = ["openssl", "req", "-x509", "-key", "ca.key", "-subj", "/CN=x"];
  const distant = await run([...request, "-days", "20000"], { cwd: folder.path });
  assertEquals((await at(1, distant)).tls.authorities?.length, 1);
  await assertRejects(() => at(20_001, distant), AccessError, "expired on 20");
});

Deno.test("a file that does not answer has ten seconds", async () => {
  const clock = new ManualClock();
  const answer = Promise.withResolvers<string>();
  let reads = 0;
  const read = limitReads(() => (reads++, answer.promise), clock);
  for (let request = 0; request < 2; request++) {
    const failure = assertRejects(() => read("/nfs/token"), Error, "could not be read within 10 s");
    await clock.advance(10_000);
    await failure;
  }
  const late = read("/nfs/token");
  answer.resolve("s3cret");
  assertEquals([await late, reads], ["s3cret", 1]);
  assertEquals([await read("/nfs/token"), reads], ["s3cret", 2], "a file may change");
});
