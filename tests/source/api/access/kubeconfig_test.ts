import { assert, assertEquals, assertThrows } from "@std/assert";
import { stringify } from "@std/yaml/stringify";
import { AccessError, type ApiAccess } from "../../../../lib/source/api/access/access.ts";
import { parseKubeconfig } from "../../../../lib/source/api/access/kubeconfig.ts";
import { wordsOf } from "../../../support/table.ts";

type Fields = Readonly<Record<string, unknown>>;

const PATH = "/etc/signpost/kubeconfig";

function text(cluster: Fields, user: Fields, rest: Fields = {}): string {
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "here",
    contexts: [
      { name: "there", context: { cluster: "x", user: "x" } },
      { name: "here", context: { cluster: "c", user: "u" } },
    ],
    clusters: [{ name: "c", cluster: { server: "https://192.0.2.1:6443", ...cluster } }],
    users: [{ name: "other", user: { exec: {} } }, { name: "u", user }],
    ...rest,
  });
}

function parse(cluster: Fields, user: Fields, rest: Fields = {}): ApiAccess {
  return parseKubeconfig(text(cluster, user, rest), { path: PATH });
}

function problems(run: () => unknown): readonly string[] {
  return assertThrows(run, AccessError).problems;
}

Deno.test("files are looked for beside the kubeconfig, data is taken before files", () => {
  const access = parse(
    { "certificate-authority": "pki/ca.crt", "tls-server-name": "kubernetes" },
    {
      "client-certificate": "/var/lib/client.pem",
      "client-key": "ignored",
      "client-key-data": btoa("a key"),
    },
  );
  assertEquals(access.server.href, "https://192.0.2.1:6443/");
  assertEquals(access.certificateAuthority, { type: "file", path: "/etc/signpost/pki/ca.crt" });
  assertEquals(access.clientCertificate, { type: "file", path: "/var/lib/client.pem" });
  assertEquals(access.clientKey, {
    type: "inline",
    text: "a key",
    origin: `${PATH}: client-key-data`,
  });
  assertEquals(access.tlsServerName, "kubernetes");
  assertEquals(access.verify, true);
});

Deno.test("a token file counts before a token", () => {
  assertEquals(parse({}, { token: "t" }).token, {
    type: "inline",
    text: "t",
    origin: `${PATH}: token`,
  });
  assertEquals(parse({}, { token: "t", tokenFile: "token" }).token, {
    type: "file",
    path: "/etc/signpost/token",
  });
});

Deno.test("only insecure-skip-tls-verify turns the verification off", () => {
  assertEquals(parse({ "insecure-skip-tls-verify": true }, {}).verify, false);
  assertEquals(parse({ "insecure-skip-tls-verify": false }, {}).verify, true);
});

Deno.test("master overrides the server", () => {
  const access = parseKubeconfig(text({ server: "" }, {}), {
    path: PATH,
    master: "https://[2001:db8::1]:6443/prefix",
  });
  assertEquals(access.server.href, "https://[2001:db8::1]:6443/prefix");
});

Deno.test("a server without a scheme is https where TLS settings are there, else http", () => {
  assertEquals(parse({ server: "192.0.2.1:8080" }, {}).server.protocol, "http:");
  const secured = { server: "192.0.2.1:6443", "certificate-authority": "ca" };
  assertEquals(parse(secured, {}).server.protocol, "https:");
});

Deno.test("programs that give credentials are refused with the reason", () => {
  for (const key of ["exec", "auth-provider"]) {
    const [problem = ""] = problems(() => parse({}, { [key]: { command: "aws" } }));
    assert(problem.startsWith(`${PATH}: users[1].user.${key}: is refused`), problem);
    assert(problem.includes("does not run other programs"), problem);
  }
});

Deno.test("every problem is reported by file and path", () => {
  const found = problems(() =>
    parse({
      "proxy-url": "http://proxy",
      "insecure-skip-tls-verify": true,
      "certificate-authority-data": "%%",
      server: "ftp://x",
    }, { "client-certificate": "x", username: "u", token: "t", as: "admin" })
  );
  assertEquals(
    found.map((problem) => problem.slice(PATH.length + 2).split(": ")[0]),
    wordsOf(`
    clusters[0].cluster.proxy-url clusters[0].cluster.insecure-skip-tls-verify
    users[1].user.username users[1].user.as users[1].user.client-key
    clusters[0].cluster.certificate-authority-data clusters[0].cluster.server
  `),
  );
});

const UNUSABLE: readonly (readonly [string, string, RegExp])[] = [
  ["no YAML", "a: [\n", /kubeconfig:\d+: is not YAML$/],
  [
    "a tab",
    "clusters:\n\t- name: a\n",
    /kubeconfig:2: a tab is not valid as indentation, use spaces$/,
  ],
  ["no mapping", "hello", /kubeconfig: document: must be a mapping$/],
  ["no text", "", /kubeconfig: document: must be a mapping$/],
  [
    "a user that is no mapping",
    text({}, {}, { users: [{ name: "u" }] }),
    /users\[0\]\.user: must be a mapping$/,
  ],
  ["a wrong type", text({ server: 7 }, {}), /clusters\[0\]\.cluster\.server: /],
  [
    "an unset context",
    text({}, {}, { "current-context": "" }),
    /is not set; contexts: there, here/,
  ],
  [
    "an unknown context",
    text({}, {}, { "current-context": "x" }),
    /names context "x", which is missing; contexts: /,
  ],
  [
    "a context of nothing",
    text({}, {}, { "current-context": "there" }),
    /clusters: "x" is missing.*users: "x" is missing/,
  ],
  ["a server with a user", text({ server: "https://u:pw@x" }, {}), /server: "https:\/\/x" may/],
  ["a server with a password", text({ server: "https://:pw@x" }, {}), /server: "https:\/\/x" may/],
];

for (const [what, source, message] of UNUSABLE) {
  Deno.test(`a kubeconfig with ${what} is refused in one line`, () => {
    const error = assertThrows(() => parseKubeconfig(source, { path: PATH }), AccessError);
    assert(message.test(error.message), error.message);
    assert(!/[\n\r]|pw/.test(error.message), error.message);
  });
}
