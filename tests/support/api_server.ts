/**
 * A test API server: list and watch over TLS as kube-apiserver does them, with faults on request.
 */
import * as http from "node:http";
import * as https from "node:https";
import type { AddressInfo } from "node:net";
import {
  errorEvent,
  type Format,
  JSON_FORMAT,
  PROTOBUF_FORMAT,
  sendFault,
  sendStatus,
} from "./api_answers.ts";
import { eventually } from "./eventually.ts";
import { realClock } from "./clock_and_log.ts";
import { FaultQueue, type RequestType } from "./api_faults.ts";
import { type ApiObject, ApiStore, type Collection, COLLECTIONS, makeFilter } from "./api_store.ts";
import { ApiStream } from "./api_stream.ts";
import { hasProtobuf } from "./protobuf.ts";
import type { Certificates } from "./certificates.ts";

/** How the server treats `sendInitialEvents`: as it should, with 422, or as if it was not there. */
export type StreamingLists = "yes" | "refuse" | "ignore";

/** A rule of a ClusterRole. */
export interface PolicyRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** Settings; those of the running server may be changed at any time. */
export interface ApiServerOptions {
  /** Absent: plain HTTP. */
  certificates?: Certificates;
  /** Address to listen on; 127.0.0.1 by default. */
  host?: string;
  /** 0, the default: any free port. It stays the same over `restart`. */
  port?: number;
  streamingLists?: StreamingLists;
  /** False: answers are JSON, whatever is asked for. */
  protobuf?: boolean;
  /** False: 404, as before Kubernetes 1.33. */
  serviceCIDRs?: boolean;
  /** The version that `/version` answers with. @default "v1.37.2" */
  gitVersion?: string;
  /** Bearer token without which requests get 401. */
  token?: string | undefined;
  /** Requests without a client certificate of the authority get 401. */
  requireClientCertificate?: boolean;
  /** Permits these requests, and answers all others with 403. Absent: permits everything. */
  rules?: readonly PolicyRule[];
  /** Milliseconds between bookmarks; 0: none but when `bookmark` is called. 60 s by default. */
  bookmarkInterval?: number;
  /** Milliseconds before each answer; 0 by default. */
  delay?: number;
}

/** A request as it came in. */
export interface RequestRecord {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** The server. Start it with `start`, end it with `stop`. */
export class ApiServer {
  readonly store = new ApiStore();
  readonly faults = new FaultQueue();
  /** Requests so far, newest last. */
  readonly requests: RequestRecord[] = [];
  readonly #streams = new Set<ApiStream>();
  #server: http.Server | https.Server | undefined;
  #timer: ReturnType<typeof setInterval> | undefined;
  /** The rest of each paged list, by continue token. */
  readonly #pages = new Map<string, Pages>();
  #silent = false;

  constructor(readonly options: ApiServerOptions = {}) {}

  /** Base URL. */
  get url(): string {
    const { certificates, host = "127.0.0.1", port } = this.options;
    const shown = host.includes(":") ? `[${host}]` : host;
    return `${certificates ? "https" : "http"}://${shown}:${port}`;
  }

  /** Number of watches that are open. */
  get openStreams(): number {
    return this.#streams.size;
  }

  async start(): Promise<void> {
    const { certificates, host = "127.0.0.1", port = 0, bookmarkInterval = 60_000 } = this.options;
    const handler = (request: http.IncomingMessage, response: http.ServerResponse) =>
      void this.#handle(request, response).catch((error) => {
        response.destroy(error instanceof Error ? error : undefined);
      });
    const server = certificates
      ? https.createServer({
        key: certificates.server.key,
        cert: certificates.server.certificate,
        ca: certificates.authority,
        requestCert: true,
        rejectUnauthorized: false,
      }, handler)
      : http.createServer(handler);
    const listen = () =>
      new Promise<true>((resolve, reject) => {
        server.once("error", reject);
        server.listen(port, host, () => resolve(true));
      });
    // A program that is being started holds the socket of before for a moment.
    await eventually("the port is free", listen);
    this.options.port = (server.address() as AddressInfo).port;
    this.#server = server;
    this.store.forget();
    if (bookmarkInterval > 0) this.#timer = setInterval(() => this.bookmark(), bookmarkInterval);
  }

  /** Cuts all connections and closes the port. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    const server = this.#server;
    this.#server = undefined;
    for (const stream of this.#streams) stream.cut();
    if (server === undefined) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  }

  /** Stops and starts on the same port, objects kept. */
  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Sends a bookmark on every open watch. */
  bookmark(): void {
    for (const stream of this.#streams) stream.bookmark();
  }

  /** Cuts (or properly ends) the open watches. */
  dropStreams(options: { readonly kind?: string; readonly end?: boolean } = {}): void {
    for (const stream of this.#select(options.kind)) {
      this.#streams.delete(stream);
      if (options.end) stream.end();
      else stream.cut();
    }
  }

  /** Sends an ERROR event on open watches. */
  sendError(code: number, message: string): void {
    for (const stream of this.#streams) stream.error(code, message);
  }

  /** Sends a text as it is on open watches: garbage. */
  sendRaw(text: string, kind?: string): void {
    for (const stream of this.#select(kind)) stream.send(text);
  }

  /** Open watches, and those that are opened while this is on, stay open and silent. */
  silence(on: boolean): void {
    this.#silent = on;
    if (on) { for (const stream of this.#streams) stream.silence(); }
  }

  /** Expires resource versions and continue tokens; open watches are cut. */
  compact(): void {
    this.store.compact();
    this.#pages.clear();
    this.dropStreams();
  }

  /** Expires the continue tokens given out so far. */
  expireContinueTokens(): void {
    this.#pages.clear();
  }

  /** A kubeconfig for this server, as JSON, which is YAML. */
  kubeconfig(user: Readonly<Record<string, unknown>> = {}): string {
    const { certificates } = this.options;
    const authority = certificates &&
      { "certificate-authority-data": btoa(certificates.authority) };
    return JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "test",
      clusters: [{ name: "test", cluster: { server: this.url, ...authority } }],
      contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
      users: [{ name: "test", user }],
    });
  }

  #select(kind: string | undefined): readonly ApiStream[] {
    return [...this.#streams].filter((stream) => kind === undefined || stream.kind === kind);
  }

  async #handle(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    const query = Object.fromEntries(url.searchParams);
    const record = {
      method: request.method ?? "GET",
      path: url.pathname,
      query,
      headers: request.headers,
    };
    this.requests.push(record);
    if (this.options.delay) await realClock.sleep(this.options.delay);
    const collection = COLLECTIONS.find((each) => pathOf(each).test(url.pathname));
    const format = this.#format(request, collection);
    if (!this.#isAllowed(request)) {
      return sendStatus(response, format, { code: 401, message: "Unauthorized" });
    }
    if (url.pathname === "/version") {
      return sendJson(response, { gitVersion: this.options.gitVersion ?? "v1.37.2" });
    }
    const discovered = discovery(url.pathname);
    if (discovered) return sendJson(response, discovered);
    const verb = verbOf(record);
    // RBAC answers before anything knows if the resource is there.
    if (collection && !this.#isPermitted(verb, collection)) {
      const message = `${collection.plural} is forbidden: cannot ${verb} resource`;
      return sendStatus(response, format, { code: 403, message });
    }
    const isAbsent = collection?.kind === "ServiceCIDR" && this.options.serviceCIDRs === false;
    if (collection === undefined || isAbsent) {
      return sendStatus(response, format, { code: 404, message: "page not found" });
    }
    const fault = this.faults.take(collection.kind, typeOf(record));
    if (fault?.type === "slow") await realClock.sleep(fault.milliseconds);
    else if (fault !== undefined) return sendFault(response, format, fault);
    if (record.method !== "GET") return await this.#write({ request, response, collection });
    if (query["watch"] === "true") return this.#watch({ response, collection, query, format });
    const [, namespace, name] = pathOf(collection).exec(url.pathname) ?? [];
    if (name === undefined) return this.#list({ response, collection, query });
    const object = this.store.get(collection.kind, namespace ? `${namespace}/${name}` : name);
    if (!object) return sendStatus(response, format, { code: 404, message: "not found" });
    sendJson(response, object);
  }

  #isAllowed(request: http.IncomingMessage): boolean {
    const { token, requireClientCertificate } = this.options;
    if (token !== undefined && request.headers.authorization !== `Bearer ${token}`) return false;
    const { socket } = request;
    return !requireClientCertificate || ("authorized" in socket && socket.authorized === true);
  }

  #isPermitted(verb: string, { base, plural }: Collection): boolean {
    const group = base === "/api/v1" ? "" : base.split("/")[2] ?? "";
    const { rules } = this.options;
    return rules === undefined ||
      rules.some(({ apiGroups, resources, verbs }) =>
        apiGroups.includes(group) && resources.includes(plural) && verbs.includes(verb)
      );
  }

  #format({ headers }: http.IncomingMessage, collection: Collection | undefined): Format {
    const isAccepted = hasProtobuf(collection?.kind ?? "Status") &&
      headers.accept?.includes(PROTOBUF_FORMAT.contentType) === true;
    return isAccepted && this.options.protobuf !== false ? PROTOBUF_FORMAT : JSON_FORMAT;
  }

  #watch({ response, collection, query, format }: Reading & { readonly format: Format }): void {
    const wantsInitial = query["sendInitialEvents"] === "true";
    const mode = this.options.streamingLists ?? "yes";
    if (wantsInitial && mode === "refuse") {
      const message = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch " +
        "unless the WatchList feature gate is enabled";
      return sendStatus(response, format, { code: 422, message });
    }
    const version = Number(query["resourceVersion"] ?? "0");
    const since = version === 0 ? undefined : version;
    response.writeHead(200, { "content-type": `${format.contentType};stream=watch` });
    if (since !== undefined && this.store.since(since) === undefined) {
      response.end(
        errorEvent(
          format,
          410,
          `too old resource version: ${since} (${this.store.resourceVersion})`,
        ),
      );
      return;
    }
    response.flushHeaders();
    const stream = new ApiStream(response, this.store, {
      collection,
      format,
      matches: filterOf(query),
      since,
      markEnd: wantsInitial && mode === "yes" && !this.#silent,
    });
    if (this.#silent) stream.silence();
    this.#streams.add(stream);
    const seconds = Number(query["timeoutSeconds"] ?? "1800");
    const timers = [
      setTimeout(() => stream.bookmark(), (seconds - 2) * 1000),
      setTimeout(() => stream.end(), seconds * 1000),
    ];
    response.on("close", () => {
      for (const timer of timers) clearTimeout(timer);
      this.#streams.delete(stream);
    });
  }

  #list({ response, collection, query }: Reading): void {
    const { kind, apiVersion } = collection;
    const token = query["continue"] ?? "";
    const { resourceVersion } = this.store;
    if (Number(query["resourceVersion"] ?? 0) > resourceVersion) {
      const message = `Timeout: Too large resource version: ${
        query["resourceVersion"]
      }, current: ${resourceVersion}`;
      return sendStatus(response, JSON_FORMAT, { code: 504, message });
    }
    const rest = token === "" ? this.#snapshot(kind, query) : this.#pages.get(token);
    if (rest === undefined) {
      const message = "The provided continue parameter is too old";
      return sendStatus(response, JSON_FORMAT, { code: 410, message });
    }
    const limit = Number(query["limit"] ?? "0") || rest.items.length;
    const page = rest.items.slice(0, limit);
    const metadata = {
      resourceVersion: rest.resourceVersion,
      ...(page.length < rest.items.length && {
        continue: this.#keepPages({ ...rest, items: rest.items.slice(limit) }),
      }),
    };
    const head = JSON.stringify({ kind: `${kind}List`, apiVersion, metadata }).slice(0, -1);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(`${head},"items":[${page.join(",")}]}`);
  }

  #snapshot(kind: string, query: Readonly<Record<string, string>>): Pages {
    const matches = filterOf(query);
    const items = this.store.list(kind).filter(({ object }) => matches(object));
    return {
      items: items.map(({ json }) => new TextDecoder().decode(json)),
      resourceVersion: String(this.store.resourceVersion),
    };
  }

  /** Keeps what a paged list has not sent yet, as it was at its start. */
  #keepPages(pages: Pages): string {
    const token = crypto.randomUUID();
    this.#pages.set(token, pages);
    return token;
  }

  async #write({ request, response, collection }: Writing): Promise<void> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const object: ApiObject = {
      kind: collection.kind,
      ...JSON.parse(new TextDecoder().decode(await new Blob(chunks as BlobPart[]).bytes())),
    };
    const name = object.metadata.name ?? `generated-${crypto.randomUUID()}`;
    this.store.put({ ...object, metadata: { ...object.metadata, name } });
    response.writeHead(201, { "content-type": "application/json" });
    response.end(JSON.stringify(object));
  }
}

/** The rest of a list. */
interface Pages {
  readonly items: readonly string[];
  readonly resourceVersion: string;
}

interface Reading {
  readonly response: http.ServerResponse;
  readonly collection: Collection;
  readonly query: Readonly<Record<string, string>>;
}

interface Writing {
  readonly request: http.IncomingMessage;
  readonly response: http.ServerResponse;
  readonly collection: Collection;
}

function sendJson(response: http.ServerResponse, body: unknown): void {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

/** Returns the groups, or the resources of a group and version; `undefined` for other paths. */
function discovery(path: string): unknown {
  if (path === "/api") return { kind: "APIVersions", versions: ["v1"] };
  if (path === "/apis") {
    const names = new Set(
      COLLECTIONS.map(({ apiVersion }) => apiVersion).filter((each) => each !== "v1"),
    );
    const groups = Map.groupBy(names, (each) => each.split("/")[0] ?? "");
    return {
      kind: "APIGroupList",
      groups: [...groups].map(([name, all]) => {
        const versions = all.map((each) => ({ groupVersion: each, version: each.split("/")[1] }));
        return { name, versions, preferredVersion: versions[0] };
      }),
    };
  }
  const resources = COLLECTIONS.filter(({ base }) => base === path)
    .map(({ kind, plural: name, namespaced }) => ({
      kind,
      name,
      namespaced,
      verbs: ["get", "list", "watch"],
    }));
  if (resources.length === 0) return undefined;
  return { kind: "APIResourceList", groupVersion: path.replace(/^\/apis?\//, ""), resources };
}

/** Matches the paths of a collection and its objects: namespace and name. */
function pathOf({ base, plural }: Collection): RegExp {
  return new RegExp(`^${base}(?:/namespaces/([^/]+))?/${plural}(?:/([^/]+))?$`);
}

function filterOf(query: Readonly<Record<string, string>>): (object: ApiObject) => boolean {
  return makeFilter(query["labelSelector"] ?? "", query["fieldSelector"] ?? "");
}

/** Returns the verb of a request, as roles name it. */
function verbOf({ method, query }: RequestRecord): string {
  if (method !== "GET") return "create";
  return query["watch"] === "true" ? "watch" : "list";
}

/** The type of a request, as faults tell them apart. */
export function typeOf({ method, query }: RequestRecord): RequestType {
  if (method !== "GET") return "post";
  if (query["watch"] !== "true") return "list";
  return query["sendInitialEvents"] === "true" ? "streamingList" : "watch";
}
