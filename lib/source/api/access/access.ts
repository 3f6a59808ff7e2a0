/** The access to the API server: its address, the trusted authorities, the credentials. */
import { messageOf } from "../../../model/values/errors.ts";
import { oneLine } from "../../../model/values/text.ts";

/** Text from a configuration, or from a file that may change. */
export type Material =
  | { readonly type: "inline"; readonly text: string; readonly origin: string }
  | { readonly type: "file"; readonly path: string };

/** The access that a kubeconfig or the in-cluster settings describe. Files are named, not read. */
export interface ApiAccess {
  /** `http:` or `https:`. Its path is a prefix of every request's path. */
  readonly server: URL;
  /** Trusted certificates; `undefined` if the server is not verified. */
  readonly certificateAuthority: Material | undefined;
  readonly clientCertificate?: Material | undefined;
  readonly clientKey?: Material | undefined;
  readonly token?: Material | undefined;
  /** The TLS server name, if it differs from the URL's host. */
  readonly tlsServerName?: string | undefined;
  /** False only if the kubeconfig has `insecure-skip-tls-verify: true`. */
  readonly verify: boolean;
}

/** The TLS settings of one connection, with the contents of files. */
export interface TlsSettings {
  /** PEM certificates, one each. If `undefined`, no server can be verified. */
  readonly authorities?: readonly string[] | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
  readonly serverName?: string | undefined;
  readonly verify: boolean;
}

export interface Credentials {
  readonly server: URL;
  readonly authorization: string | undefined;
  readonly tls: TlsSettings;
}

/** Reads a text file. Rejects with the system's error. */
export type ReadFile = (path: string) => Promise<string>;

/** Lists the faults of the access to the API server: each has a file, and a place in it. */
export class AccessError extends Error {
  override name = "AccessError";
  /** @param problems one line each */
  constructor(readonly problems: readonly string[], options?: ErrorOptions) {
    super(problems.join("; "), options);
  }
}

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const PRIVATE_KEY = /-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----/;
const TOKEN = /^[\x21-\x7e]+$/;

/** Reads the files that the access names, before each request: files are renewed. @throws {AccessError} */
export async function readCredentials(
  access: ApiAccess,
  { readFile, now }: { readonly readFile: ReadFile; readonly now: () => number },
): Promise<Credentials> {
  const read = (material: Material | undefined) => readMaterial(material, readFile);
  const [authority, certificate, key, token] = await Promise.all([
    read(access.certificateAuthority),
    read(access.clientCertificate),
    read(access.clientKey),
    read(access.token),
  ]);
  return {
    server: access.server,
    authorization: token && `Bearer ${tokenIn(token)}`,
    tls: {
      authorities: authority && authoritiesIn(authority, now()),
      certificate: certificate && certificatesIn(certificate).join("\n"),
      key: key && privateKeyIn(key),
      serverName: access.tlsServerName,
      verify: access.verify,
    },
  };
}

type ReadText = Extract<Material, { readonly type: "inline" }>;

async function readMaterial(
  material: Material | undefined,
  readFile: ReadFile,
): Promise<ReadText | undefined> {
  if (material === undefined) return undefined;
  if (material.type === "inline") return material;
  try {
    return { type: "inline", text: await readFile(material.path), origin: material.path };
  } catch (cause) {
    const problem = `${oneLine(material.path)}: cannot be read: ${oneLine(messageOf(cause))}`;
    throw new AccessError([problem], { cause });
  }
}

function certificatesIn({ text, origin }: ReadText): readonly string[] {
  const certificates = text.match(CERTIFICATES);
  if (!certificates) throw new AccessError([`${oneLine(origin)}: must hold a PEM certificate`]);
  return certificates;
}

/** Returns the authorities that are valid now. Go checks their dates; `fetch` and `node:https` do not. */
function authoritiesIn(material: ReadText, now: number): readonly string[] {
  const all = certificatesIn(material).map((pem) => ({ pem, problem: dateFault(pem, now) }));
  const valid = all.filter(({ problem }) => problem === undefined).map(({ pem }) => pem);
  if (valid.length > 0) return valid;
  throw new AccessError([
    `${oneLine(material.origin)}: the certificate authority ${all.at(-1)?.problem}: ` +
    "put a valid one there, and check this node's clock",
  ]);
}

/** Returns the fault of a certificate's dates. TLS reports other faults of certificates. */
function dateFault(pem: string, now: number): string | undefined {
  const [from, to] = datesOf(pem);
  if (to && now > +to) return `expired on ${to.toISOString()}`;
  if (from && now < +from) return `is not valid before ${from.toISOString()}`;
  return undefined;
}

/** Matches both dates in DER: a sequence, each with its tag and length (RFC 5280, section 4.1.2.5). */
const VALIDITY = /0...(\d{12}|\d{14})Z..(\d{12}|\d{14})Z/s;

/** Returns both dates; an empty list if they cannot be read. `node:crypto` takes 3 MB to read them. */
function datesOf(pem: string): readonly Date[] {
  const der = decodeBase64(pem.replace(/-----[^-]+-----/g, "")) ?? "";
  return VALIDITY.exec(der)?.slice(1).map(timeOf) ?? [];
}

/** Reads `YYMMDDhhmmss`, from 1950 to 2049, or `YYYYMMDDhhmmss`. */
function timeOf(text: string): Date {
  const full = text.length === 14 ? text : `${text < "5" ? "20" : "19"}${text}`;
  return new Date(full.replace(/(....)(..)(..)(..)(..)(..)/, "$1-$2-$3T$4:$5:$6Z"));
}

/** Decodes base64 to a string of bytes; `undefined` if the text is not base64. */
export function decodeBase64(text: string): string | undefined {
  try {
    return atob(text);
  } catch {
    return undefined;
  }
}

function privateKeyIn({ text, origin }: ReadText): string {
  if (!PRIVATE_KEY.test(text)) {
    throw new AccessError([`${oneLine(origin)}: must hold a PEM private key`]);
  }
  return text;
}

function tokenIn({ text, origin }: ReadText): string {
  const token = text.trim();
  if (TOKEN.test(token)) return token;
  throw new AccessError([`${oneLine(origin)}: must hold a bearer token: one line without blanks`]);
}
