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
  readonly basic?: { readonly username: string; readonly password: string } | undefined;
  /** The TLS server name, if it differs from the URL's host. */
  readonly tlsServerName?: string | undefined;
  /** False only if the kubeconfig has `insecure-skip-tls-verify: true`. */
  readonly verify: boolean;
}

/** The TLS settings of one connection, with the contents of files. */
export interface TlsSettings {
  /** PEM certificates, one each. If `undefined`, no server can be verified. */
  readonly authorities: readonly string[] | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  readonly serverName: string | undefined;
  readonly verify: boolean;
}

export interface Credentials {
  readonly server: URL;
  /** The `authorization` header. */
  readonly authorization: string | undefined;
  readonly tls: TlsSettings;
}

/** Reads a text file. Rejects with the system's error. */
export type ReadFile = (path: string) => Promise<string>;

/** The faults of the access to the API server, by file and path in it. */
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
    authorization: authorization(access, token),
    tls: {
      authorities: authority && authoritiesIn(authority, now()),
      certificate: certificate && certificatesIn(certificate).join("\n"),
      key: key && privateKeyIn(key),
      serverName: access.tlsServerName,
      verify: access.verify,
    },
  };
}

interface ReadText {
  readonly text: string;
  readonly origin: string;
}

async function readMaterial(
  material: Material | undefined,
  readFile: ReadFile,
): Promise<ReadText | undefined> {
  if (material === undefined) return undefined;
  if (material.type === "inline") return material;
  try {
    return { text: await readFile(material.path), origin: material.path };
  } catch (cause) {
    const problem = `${oneLine(material.path)}: cannot be read: ${oneLine(messageOf(cause))}`;
    throw new AccessError([problem], { cause });
  }
}

function certificatesIn({ text, origin }: ReadText): readonly string[] {
  const certificates = text.match(CERTIFICATES);
  if (!certificates) throw new AccessError([`${oneLine(origin)}: holds no PEM certificate`]);
  return certificates;
}

/** Returns the authorities that are valid now. Go checks their dates, and `fetch` and `node:https` do not. */
function authoritiesIn(material: ReadText, now: number): readonly string[] {
  const all = certificatesIn(material).map((pem) => ({ pem, problem: problemOf(pem, now) }));
  const valid = all.filter(({ problem }) => problem === undefined).map(({ pem }) => pem);
  if (valid.length > 0) return valid;
  throw new AccessError([
    `${oneLine(material.origin)}: the certificate authority ${all.at(-1)?.problem}: ` +
    "put a valid one there, and see that this node's clock is right",
  ]);
}

/** Returns the fault of a certificate's dates. TLS reports a certificate that cannot be read. */
function problemOf(pem: string, now: number): string | undefined {
  try {
    const [from, to] = datesOf(pem);
    if (now > to.getTime()) return `expired on ${to.toISOString()}`;
    if (now < from.getTime()) return `is not valid before ${from.toISOString()}`;
  } catch {
    // It cannot be read.
  }
  return undefined;
}

/**
 * Returns both dates of a certificate (RFC 5280, section 4.1.2.5). `node:crypto` takes 3 MB to read them.
 * @throws if it cannot be read
 */
function datesOf(pem: string): [Date, Date] {
  const [certificate] = elementsOf(Uint8Array.fromBase64(pem.replace(/-----[^-]+-----/g, "")));
  const [signed] = elementsOf(certificate?.content);
  // The version is optional. Before the dates come the serial number, the algorithm and the issuer.
  const [, , , validity] = elementsOf(signed?.content).filter(({ tag }) => tag !== VERSION);
  const [from, to] = elementsOf(validity?.content);
  return [timeOf(from), timeOf(to)];
}

/** An element of DER (X.690, section 8.1). */
interface Element {
  readonly tag: number;
  readonly content: Uint8Array;
}

const VERSION = 0xa0;
const UTC_TIME = 0x17;

function elementsOf(der: Uint8Array = new Uint8Array()): Element[] {
  const elements: Element[] = [];
  for (let at = 0; at + 1 < der.length;) {
    const [tag = 0, first = 0] = der.subarray(at, at += 2);
    // A long length has its number of bytes before it.
    const long = first > 0x80 ? der.subarray(at, at += first - 0x80) : undefined;
    const length = long ? long.reduce((sum, byte) => sum * 256 + byte, 0) : first;
    elements.push({ tag, content: der.subarray(at, at += length) });
  }
  return elements;
}

/** Reads `YYMMDDhhmmssZ`, from 1950 to 2049, or `YYYYMMDDhhmmssZ`. @throws if it is none */
function timeOf(element: Element | undefined): Date {
  const text = new TextDecoder().decode(element?.content);
  const full = element?.tag === UTC_TIME ? `${text < "5" ? "20" : "19"}${text}` : text;
  const parts = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/.exec(full)?.slice(1).map(Number);
  if (!parts) throw new Error(`${full} is no time of a certificate`);
  const [year = 0, month = 1, ...rest] = parts;
  return new Date(Date.UTC(year, month - 1, ...rest));
}

function privateKeyIn({ text, origin }: ReadText): string {
  if (!PRIVATE_KEY.test(text)) {
    throw new AccessError([`${oneLine(origin)}: holds no PEM private key`]);
  }
  return text;
}

function authorization(access: ApiAccess, token: ReadText | undefined): string | undefined {
  if (token !== undefined) {
    const text = token.text.trim();
    if (!TOKEN.test(text)) {
      throw new AccessError([`${oneLine(token.origin)}: is empty or no bearer token`]);
    }
    return `Bearer ${text}`;
  }
  if (access.basic === undefined) return undefined;
  const { username, password } = access.basic;
  const bytes = new TextEncoder().encode(`${username}:${password}`);
  return `Basic ${btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))}`;
}
