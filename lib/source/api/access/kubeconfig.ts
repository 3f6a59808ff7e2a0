/**
 * Parses kubeconfig files (kubernetes.io/docs/reference/config-api/kubeconfig.v1): text in, access
 * out.
 *
 * @module
 */
import { dirname, isAbsolute, join } from "node:path/posix";
import { parse as parseYaml } from "@std/yaml";
import * as z from "zod/mini";
import { AccessError, type ApiAccess, type Material } from "./access.ts";
import { oneLine } from "../../../model/values/text.ts";

/** Returns a schema with a default for an absent or null value. */
function orElse<S extends z.ZodMiniType>(schema: S, absent: z.output<S>) {
  return z.pipe(
    z.nullish(schema),
    z.transform((value: z.output<S> | null | undefined) => value ?? absent),
  );
}

const text = orElse(z.string("must be text"), "");
const flag = orElse(z.boolean("must be true or false"), false);

const clusterSchema = z.object({
  "server": text,
  "certificate-authority": text,
  "certificate-authority-data": text,
  "insecure-skip-tls-verify": flag,
  "tls-server-name": text,
  "proxy-url": text,
}, "must be a mapping");

const userSchema = z.object({
  "client-certificate": text,
  "client-certificate-data": text,
  "client-key": text,
  "client-key-data": text,
  "token": text,
  "tokenFile": text,
  "username": text,
  "password": text,
  "as": text,
  "exec": z.optional(z.unknown()),
  "auth-provider": z.optional(z.unknown()),
}, "must be a mapping");

const contextSchema = z.object({ cluster: text, user: text }, "must be a mapping");

function namedList<Key extends string, Schema extends z.ZodMiniType>(key: Key, schema: Schema) {
  const entry = z.intersection(
    z.object({ name: z.string("must be text") }),
    z.object({ [key]: schema } as Record<Key, Schema>, "must be a mapping"),
  );
  return orElse(z.array(entry, "must be a list"), []);
}

const kubeconfigSchema = z.object({
  "current-context": text,
  clusters: namedList("cluster", clusterSchema),
  contexts: namedList("context", contextSchema),
  users: namedList("user", userSchema),
}, "must be a mapping");

type Cluster = z.infer<typeof clusterSchema>;
type User = z.infer<typeof userSchema>;

/** The facts that a kubeconfig does not contain. */
export interface KubeconfigOptions {
  /** The path of the file, for its relative paths and for errors. */
  readonly path: string;
  /** `--master`: a URL that overrides the cluster's server; `""` if unset. */
  readonly master?: string;
}

/**
 * Parses a kubeconfig and resolves its current context.
 *
 * @throws {AccessError} with every problem found, each by file and path in it
 */
export function parseKubeconfig(source: string, options: KubeconfigOptions): ApiAccess {
  const config = parseDocument(source, options.path);
  const problems = new Problems(options.path);
  const name = config["current-context"];
  const context = config.contexts.find((entry) => entry.name === name)?.context;
  if (context === undefined) {
    const known = config.contexts.map((entry) => entry.name).join(", ") || "none";
    problems.add(
      "current-context",
      name === "" ? `is not set; contexts: ${known}` : `no context "${name}"; contexts: ${known}`,
    );
    throw problems.error();
  }
  const clusterIndex = config.clusters.findIndex((entry) => entry.name === context.cluster);
  const userIndex = config.users.findIndex((entry) => entry.name === context.user);
  if (clusterIndex < 0) problems.add("clusters", `no cluster "${context.cluster}"`);
  if (userIndex < 0 && context.user !== "") problems.add("users", `no user "${context.user}"`);
  const cluster = config.clusters[clusterIndex]?.cluster ?? clusterSchema.parse({});
  const user = config.users[userIndex]?.user ?? userSchema.parse({});
  checkCluster(cluster, problems.at(`clusters[${clusterIndex}].cluster`));
  checkUser(user, problems.at(`users[${userIndex}].user`));
  const access = resolveAccess({
    cluster,
    user,
    clusterProblems: problems.at(`clusters[${clusterIndex}].cluster`),
    userProblems: problems.at(`users[${userIndex}].user`),
    path: options.path,
    master: options.master ?? "",
  });
  if (access === undefined || problems.list.length > 0) throw problems.error();
  return access;
}

/**
 * Parses the URL of an API server, from a kubeconfig or `--master`.
 *
 * As in client-go, the default scheme is `https` with TLS settings, else `http`.
 *
 * @returns the URL, or one line that says what is wrong with it
 */
export function parseServer(server: string, options: { readonly tls: boolean }): URL | string {
  const scheme = /^[a-z][a-z0-9+.-]*:\/\//i.test(server)
    ? ""
    : options.tls
    ? "https://"
    : "http://";
  const shown = oneLine(server.replace(/\/\/[^@/]*@/, "//"));
  if (server === "") return "is not set; an address such as https://192.0.2.1:6443 is needed";
  if (!URL.canParse(scheme + server)) return `"${shown}" is no URL`;
  const url = new URL(scheme + server);
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    return `"${shown}" is neither https nor http`;
  }
  if (url.username !== "" || url.search !== "" || url.hash !== "") {
    return `"${shown}" may hold a scheme, a host, a port and a path, nothing else`;
  }
  return url;
}

/** Collects problems with their path in one file. */
class Problems {
  constructor(
    private readonly file: string,
    private readonly prefix = "",
    readonly list: string[] = [],
  ) {}

  at(prefix: string): Problems {
    return new Problems(this.file, `${prefix}.`, this.list);
  }

  add(path: string, problem: string): void {
    this.list.push(`${oneLine(this.file)}: ${this.prefix}${path}: ${oneLine(problem)}`);
  }

  error(): AccessError {
    return new AccessError(this.list);
  }
}

function parseDocument(source: string, path: string): z.infer<typeof kubeconfigSchema> {
  let document: unknown;
  try {
    document = parseYaml(source);
  } catch (cause) {
    const line = cause instanceof Error && "line" in cause ? `:${String(cause.line)}` : "";
    throw new AccessError([`${oneLine(path)}${line}: is not YAML`], { cause });
  }
  const result = kubeconfigSchema.safeParse(document);
  if (result.success) return result.data;
  throw new AccessError(result.error.issues.map((issue) => {
    const where = issue.path.map((part) =>
      typeof part === "number" ? `[${part}]` : `.${String(part)}`
    );
    return `${oneLine(path)}: ${oneLine(where.join("").replace(/^\./, "") || "document")}: ${
      oneLine(issue.message)
    }`;
  }));
}

function checkCluster(cluster: Cluster, problems: Problems): void {
  if (cluster["proxy-url"] !== "") {
    problems.add(
      "proxy-url",
      "is not supported: a node proxy must reach its API server directly, remove it",
    );
  }
  const hasAuthority = cluster["certificate-authority"] !== "" ||
    cluster["certificate-authority-data"] !== "";
  if (cluster["insecure-skip-tls-verify"] && hasAuthority) {
    problems.add("insecure-skip-tls-verify", "contradicts the certificate authority, remove one");
  }
}

function checkUser(user: User, problems: Problems): void {
  const reason = "is refused: a node proxy runs no foreign programs; " +
    "use a client certificate, token or tokenFile";
  for (const key of ["exec", "auth-provider"] as const) {
    if (user[key] !== undefined && user[key] !== null) problems.add(key, reason);
  }
  if (user.as !== "") problems.add("as", "is refused: impersonation is not supported");
  const has = (key: "client-certificate" | "client-key") =>
    user[key] !== "" || user[`${key}-data`] !== "";
  if (has("client-certificate") !== has("client-key")) {
    const missing = has("client-key") ? "client-certificate" : "client-key";
    problems.add(missing, "is missing: a client certificate and its key go together");
  }
  if (user.username !== "" && (user.token !== "" || user.tokenFile !== "")) {
    problems.add("username", "contradicts the token: set one of them");
  }
}

interface Resolution {
  readonly cluster: Cluster;
  readonly user: User;
  readonly clusterProblems: Problems;
  readonly userProblems: Problems;
  readonly path: string;
  readonly master: string;
}

function resolveAccess(resolution: Resolution): ApiAccess | undefined {
  const { cluster, user, clusterProblems, userProblems, master } = resolution;
  const folder = dirname(resolution.path);
  const inline = (data: string, name: string, problems: Problems): Material | undefined => {
    const decoded = decodeBase64(data);
    if (decoded === undefined) problems.add(name, "is not base64");
    return { type: "inline", text: decoded ?? "", origin: `${resolution.path}: ${name}` };
  };
  const material = (data: string, file: string, name: string, problems: Problems) =>
    data !== "" ? inline(data, `${name}-data`, problems) : fileMaterial(file, folder);
  const certificateAuthority = material(
    cluster["certificate-authority-data"],
    cluster["certificate-authority"],
    "certificate-authority",
    clusterProblems,
  );
  const server = parseServer(master === "" ? cluster.server : master, {
    tls: certificateAuthority !== undefined || cluster["insecure-skip-tls-verify"],
  });
  if (typeof server === "string") {
    clusterProblems.add(master === "" ? "server" : "server (overridden by --master)", server);
    return undefined;
  }
  const certificate = user["client-certificate-data"];
  return {
    server,
    certificateAuthority,
    clientCertificate: material(
      certificate,
      user["client-certificate"],
      "client-certificate",
      userProblems,
    ),
    clientKey: material(user["client-key-data"], user["client-key"], "client-key", userProblems),
    token: user.tokenFile !== "" || user.token === ""
      ? fileMaterial(user.tokenFile, folder)
      : { type: "inline", text: user.token, origin: `${resolution.path}: token` },
    basic: user.username === "" ? undefined : { username: user.username, password: user.password },
    tlsServerName: cluster["tls-server-name"] || undefined,
    verify: !cluster["insecure-skip-tls-verify"],
  };
}

function fileMaterial(file: string, folder: string): Material | undefined {
  return file === ""
    ? undefined
    : { type: "file", path: isAbsolute(file) ? file : join(folder, file) };
}

function decodeBase64(data: string): string | undefined {
  const compact = data.replace(/\s+/g, "");
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(compact)) return undefined;
  try {
    return atob(compact);
  } catch {
    return undefined;
  }
}
