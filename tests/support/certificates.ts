/** Certificates for TLS tests, made by openssl(1) in a folder of the test's own. */
import { wordsOf } from "./table.ts";

/** A private authority, a server and a client that it vouches for: PEM texts, and their files. */
export interface Certificates {
  readonly folder: string;
  readonly authority: string;
  readonly server: KeyPair;
  readonly client: KeyPair;
  readonly files: {
    readonly authority: string;
    readonly clientCertificate: string;
    readonly clientKey: string;
  };
}

/** A certificate and its private key, PEM. */
export interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/**
 * Makes an authority, a server certificate and a client certificate.
 *
 * @param folder an existing folder; the files go there
 * @param hosts addresses and names that the server certificate holds for
 */
export async function makeCertificates(
  folder: string,
  hosts: readonly string[] = ["127.0.0.1", "::1", "localhost"],
): Promise<Certificates> {
  const isAddress = (host: string) => /^[\d.]+$/.test(host) || host.includes(":");
  const names = hosts.map((host) => `${isAddress(host) ? "IP" : "DNS"}:${host}`).join(",");
  await makeKey(folder, "ca");
  await openssl(folder, [
    ...["req", "-x509", "-new", "-key", "ca.key", "-subj", `/CN=test-${crypto.randomUUID()}`],
    ...["-days", "2", "-out", "ca.crt"],
  ]);
  await makeLeaf(folder, {
    name: "server",
    subject: "/CN=server",
    extension: `subjectAltName=${names}`,
  });
  await makeLeaf(folder, {
    name: "client",
    subject: "/O=system:nodes/CN=system:node:test",
    extension: "extendedKeyUsage=clientAuth",
  });
  const read = (name: string) => Deno.readTextFile(`${folder}/${name}`);
  return {
    folder,
    authority: await read("ca.crt"),
    server: { certificate: await read("server.crt"), key: await read("server.key") },
    client: { certificate: await read("client.crt"), key: await read("client.key") },
    files: {
      authority: `${folder}/ca.crt`,
      clientCertificate: `${folder}/client.crt`,
      clientKey: `${folder}/client.key`,
    },
  };
}

const CA_CONFIG = `[ca]
default_ca = own
[own]
database = index.txt
new_certs_dir = .
serial = ca.serial
default_md = sha256
policy = any
x509_extensions = authority
[any]
commonName = supplied
[authority]
basicConstraints = critical,CA:TRUE
`;

/** Writes `expired.crt`: the authority by its own key and name, valid on the first day of 2020 alone. */
export async function expireAuthority({ folder }: Certificates): Promise<void> {
  await Deno.writeTextFile(`${folder}/ca.cnf`, CA_CONFIG);
  await Deno.writeTextFile(`${folder}/index.txt`, "");
  await Deno.writeTextFile(`${folder}/ca.serial`, "01\n");
  await openssl(folder, wordsOf("x509 -x509toreq -in ca.crt -key ca.key -out ca.csr"));
  await openssl(folder, [
    ...["ca", "-config", "ca.cnf", "-batch", "-notext", "-selfsign", "-keyfile", "ca.key"],
    ...["-in", "ca.csr", "-out", "expired.crt"],
    ...["-startdate", "20200101000000Z", "-enddate", "20200102000000Z"],
  ]);
}

interface Leaf {
  readonly name: string;
  readonly subject: string;
  readonly extension: string;
}

async function makeLeaf(folder: string, { name, subject, extension }: Leaf): Promise<void> {
  await makeKey(folder, name);
  await openssl(folder, [
    ...["req", "-new", "-key", `${name}.key`, "-subj", subject, "-out", `${name}.csr`],
  ]);
  await Deno.writeTextFile(`${folder}/${name}.ext`, `${extension}\n`);
  await openssl(folder, [
    ...["x509", "-req", "-in", `${name}.csr`, "-CA", "ca.crt", "-CAkey", "ca.key"],
    ...["-CAcreateserial", "-days", "2", "-extfile", `${name}.ext`, "-out", `${name}.crt`],
  ]);
}

function makeKey(folder: string, name: string): Promise<void> {
  return openssl(folder, [
    ...["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    ...["-out", `${name}.key`],
  ]);
}

async function openssl(folder: string, args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("openssl", {
    args: [...args],
    cwd: folder,
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(`openssl ${args[0]}: ${new TextDecoder().decode(stderr)}`);
}
