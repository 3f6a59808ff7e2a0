/** Parses kubeconfig files (kubernetes.io/docs/reference/config-api/kubeconfig.v1): text in, access out. */
import { dirname, isAbsolute, join } from "@std/path/posix";
import { parseAll } from "@std/yaml";
import { isRecord, type JsonObject } from "../../../model/values/record.ts";
import { oneLine, TAB_INDENTATION, tabIndentedLine } from "../../../model/values/text.ts";
import { AccessError, type ApiAccess, decodeBase64, type Material } from "./access.ts";

/** Parses a kubeconfig and resolves its current context. @throws {AccessError} with every problem found */
export function parseKubeconfig(
  source: string,
  { path, master = "" }: { readonly path: string; readonly master?: string },
): ApiAccess {
  const problems = new Set<string>();
  const config = new Section(parseDocument(source, path), { file: path, path: "", problems });
  const name = config.text("current-context");
  if (problems.size > 0) throw new AccessError([...problems]);
  const context = config.entry("contexts", "context", name);
  if (context === undefined) {
    const why = name === "" ? "is not set" : `names context "${name}", which is missing`;
    config.problem("current-context", `${why}; contexts: ${config.names("contexts")}`);
    throw new AccessError([...problems]);
  }
  const clusterName = context.text("cluster");
  const userName = context.text("user");
  const cluster = config.entry("clusters", "cluster", clusterName);
  const user = config.entry("users", "user", userName);
  if (!cluster) config.problem("clusters", `"${clusterName}" is missing`);
  if (!user && userName !== "") config.problem("users", `"${userName}" is missing`);
  if (cluster) checkCluster(cluster);
  if (user) checkUser(user);
  const access = cluster && resolveAccess({ cluster, user, path, master });
  if (access === undefined || problems.size > 0) throw new AccessError([...problems]);
  return access;
}

/** Parses an API server's URL, by default `https` with TLS settings, as in client-go. @returns the URL, or the fault */
export function parseServer(server: string, options: { readonly tls: boolean }): URL | string {
  const hasScheme = /^[a-z][a-z0-9+.-]*:\/\//i.test(server);
  const scheme = hasScheme ? "" : options.tls ? "https://" : "http://";
  const shown = oneLine(server.replace(/\/\/[^@/]*@/, "//"));
  if (server === "") return "is not set; an address such as https://192.0.2.1:6443 is needed";
  if (!URL.canParse(scheme + server)) return `"${shown}" is not a URL`;
  const url = new URL(scheme + server);
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    return `"${shown}" is neither https nor http`;
  }
  if (url.username + url.password + url.search + url.hash !== "") {
    return `"${shown}" may hold only a scheme, a host, a port and a path`;
  }
  return url;
}

/** Reads a mapping of the file. A field of a wrong type is a problem, and counts as absent. */
class Section {
  readonly #fields: JsonObject;

  constructor(
    value: unknown,
    private readonly place: {
      readonly file: string;
      readonly path: string;
      readonly problems: Set<string>;
    },
  ) {
    this.#fields = isRecord(value) ? value : {};
    if (!isRecord(value)) this.problem("", "must be a mapping");
  }

  problem(name: string, problem: string): void {
    const { file, path, problems } = this.place;
    const where = [path, name].filter((each) => each !== "").join(".") || "document";
    problems.add(`${oneLine(file)}: ${oneLine(where)}: ${oneLine(problem)}`);
  }

  has(name: string): boolean {
    return (this.#fields[name] ?? null) !== null;
  }

  text(name: string): string {
    const value = this.#fields[name] ?? "";
    if (typeof value === "string") return value;
    this.problem(name, "must be text");
    return "";
  }

  flag(name: string): boolean {
    const value = this.#fields[name] ?? false;
    if (typeof value === "boolean") return value;
    this.problem(name, "must be true or false");
    return false;
  }

  #list(name: string): readonly JsonObject[] {
    const value = this.#fields[name] ?? [];
    if (Array.isArray(value)) return value.map((each) => isRecord(each) ? each : {});
    this.problem(name, "must be a list");
    return [];
  }

  /** Returns the mapping `field` of the entry of a list that has this name. */
  entry(list: string, field: string, name: string): Section | undefined {
    const entries = this.#list(list);
    const index = entries.findIndex((each) => each["name"] === name);
    if (index < 0) return undefined;
    const path = `${list}[${index}].${field}`;
    return new Section(entries[index]?.[field], { ...this.place, path });
  }

  names(list: string): string {
    return this.#list(list).map(({ name }) => String(name)).join(", ") || "none";
  }
}

function parseDocument(source: string, path: string): unknown {
  const tab = tabIndentedLine(source);
  if (tab !== undefined) throw new AccessError([`${oneLine(path)}:${tab}: ${TAB_INDENTATION}`]);
  try {
    // Of several documents the first counts, as in kubectl.
    return (parseAll(source) as unknown[])[0];
  } catch (cause) {
    const line = cause instanceof Error && "line" in cause ? `:${String(cause.line)}` : "";
    throw new AccessError([`${oneLine(path)}${line}: is not YAML`], { cause });
  }
}

function checkCluster(cluster: Section): void {
  if (cluster.text("proxy-url") !== "") {
    cluster.problem(
      "proxy-url",
      "is not supported: a node proxy must reach its API server directly, remove it",
    );
  }
  const authority = cluster.text("certificate-authority") +
    cluster.text("certificate-authority-data");
  if (cluster.flag("insecure-skip-tls-verify") && authority !== "") {
    cluster.problem(
      "insecure-skip-tls-verify",
      "contradicts the certificate authority, remove one",
    );
  }
}

function checkUser(user: Section): void {
  const use = "use a client certificate, token or tokenFile";
  const foreign = `is refused: a node proxy does not run other programs; ${use}`;
  for (const key of ["exec", "auth-provider"]) if (user.has(key)) user.problem(key, foreign);
  const basic = `is refused: API servers take passwords until Kubernetes 1.18 only; ${use}`;
  if (user.text("username") !== "") user.problem("username", basic);
  if (user.text("as") !== "") user.problem("as", "is refused: impersonation is not supported");
  const has = (key: string) => user.text(key) + user.text(`${key}-data`) !== "";
  if (has("client-certificate") !== has("client-key")) {
    const missing = has("client-key") ? "client-certificate" : "client-key";
    user.problem(missing, "is missing: a client certificate and its key go together");
  }
}

function resolveAccess({ cluster, user, path, master }: {
  readonly cluster: Section;
  readonly user: Section | undefined;
  readonly path: string;
  readonly master: string;
}): ApiAccess | undefined {
  const text = (name: string) => user?.text(name) ?? "";
  const file = (name: string): Material | undefined => {
    if (name === "") return undefined;
    return { type: "file", path: isAbsolute(name) ? name : join(dirname(path), name) };
  };
  const material = (section: Section | undefined, name: string): Material | undefined => {
    const field = `${name}-data`;
    const data = section?.text(field) ?? "";
    if (data === "") return file(section?.text(name) ?? "");
    const decoded = decodeBase64(data);
    if (decoded === undefined) section?.problem(field, "is not base64");
    return { type: "inline", text: decoded ?? "", origin: `${path}: ${field}` };
  };
  const certificateAuthority = material(cluster, "certificate-authority");
  const verify = !cluster.flag("insecure-skip-tls-verify");
  const server = parseServer(master === "" ? cluster.text("server") : master, {
    tls: certificateAuthority !== undefined || !verify,
  });
  if (typeof server === "string") {
    cluster.problem(master === "" ? "server" : "server (overridden by --master)", server);
    return undefined;
  }
  const [token, tokenFile] = [text("token"), text("tokenFile")];
  return {
    server,
    certificateAuthority,
    clientCertificate: material(user, "client-certificate"),
    clientKey: material(user, "client-key"),
    token: tokenFile !== "" || token === ""
      ? file(tokenFile)
      : { type: "inline", text: token, origin: `${path}: token` },
    tlsServerName: cluster.text("tls-server-name") || undefined,
    verify,
  };
}
