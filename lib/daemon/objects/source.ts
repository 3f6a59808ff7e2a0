/** Opens the source of the objects: an API server, or manifest files. */
import { createDecoder } from "../../source/objects/decode.ts";
import type { Configuration } from "../../config/configuration.ts";
import { PROTOBUF } from "../../model/configuration.ts";
import { type Kind, KINDS, type ObjectEvent } from "../../model/cluster/objects.ts";
import { API_SERVICE } from "../../model/cluster/names.ts";
import type { Logger } from "../../model/ports/ports.ts";
import type { Runtime } from "../../model/ports/runtime.ts";
import { AccessError } from "../../source/api/access/access.ts";
import {
  accessWarnings,
  loadAccess,
  proxiesIn,
  refuseClusterIPServer,
} from "../../source/api/access/access_source.ts";
import { ApiClient, type RequestObserver } from "../../source/api/api_client.ts";
import { StatusError } from "../../source/api/failure.ts";
import { denoFiles } from "../../system/files.ts";
import {
  followManifests,
  loadManifests,
  ManifestError,
  type ManifestSourceOptions,
} from "../../source/manifests.ts";
import { createHttpClient } from "../../system/http_client.ts";
import { watchAll, type WatchStatus } from "../../source/api/reflector.ts";
import { FatalError, fatalIf } from "../../model/values/errors.ts";
import { VERSION } from "../../model/version.ts";

export interface SourceOptions {
  readonly configuration: Configuration;
  readonly nodeName: string;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called with every object of manifests before it is decoded. */
  readonly inspect?: (kind: Kind, raw: unknown) => void;
}

interface Receiver {
  readonly sink: (event: ObjectEvent) => void;
  readonly watchChanged?: (status: WatchStatus) => void;
  readonly requests?: RequestObserver;
  /** Resolves when the first rules are in the kernel. */
  readonly firstSync?: Promise<void>;
}

export interface Source {
  /** `undefined` for manifests. */
  readonly api: ApiServer | undefined;
  /** Delivers the full state, then changes, until the abort. @throws {FatalError} if it cannot be used */
  run(receiver: Receiver): Promise<void>;
}

/** Opens the source, without a request to an API server. @throws {FatalError} if it cannot be used */
export async function openSource(options: SourceOptions): Promise<Source> {
  if (options.configuration.signpost.manifests.length === 0) {
    const api = await findApiServer(options);
    return { api, run: (receiver) => watchApiServer(api, options, receiver) };
  }
  const { runtime: { clock }, signal } = options;
  const run = ({ sink }: Receiver) =>
    followManifests({ ...manifestOptions(options), sink, clock, signal })
      .catch(fatalIf(ManifestError));
  return { api: undefined, run };
}

/** Opens and closes the source, without a request. @throws {FatalError} if it cannot be used */
export async function checkSource(options: SourceOptions): Promise<void> {
  const { api } = await openSource(options);
  if (api) api.close();
  else await inspectManifests(options);
}

/** Reads the manifests once, and calls `inspect` for each object. @throws {FatalError} if they cannot be used */
export async function inspectManifests(options: SourceOptions): Promise<void> {
  await loadManifests(manifestOptions(options)).catch(fatalIf(ManifestError));
}

function manifestOptions(options: SourceOptions): ManifestSourceOptions {
  const decode = createDecoder();
  return {
    ...options,
    sink() {},
    paths: options.configuration.signpost.manifests,
    decode: (kind, raw) => {
      options.inspect?.(kind, raw);
      return decode(kind, raw);
    },
    files: denoFiles,
  };
}

interface ApiServer {
  readonly client: ApiClient;
  readonly url: URL;
  /** Returns the server's present address by the kubeconfig; rejects if that cannot be read. */
  readonly locate: () => Promise<URL>;
  /** The insecure parts of the access, one line each. */
  readonly warnings: readonly string[];
  readonly close: () => void;
}

/** Finds the API server, without a request. @throws {FatalError} if the kubeconfig or the server cannot be used */
export async function findApiServer(
  { configuration, runtime }: Pick<SourceOptions, "configuration" | "runtime">,
): Promise<ApiServer> {
  const access = () =>
    loadAccess({
      kubeconfig: configuration.clientConnection.kubeconfig,
      master: configuration.master,
      environment: runtime.environment,
      readFile: runtime.readRegularFile,
    });
  const first = await access().catch(fatalIf(AccessError));
  const { server } = first;
  const refusal = refuseClusterIPServer(server, { environment: runtime.environment });
  if (refusal) throw new FatalError(refusal);
  const proxies = configuration.signpost.proxyFromEnvironment ? proxiesIn(runtime.environment) : {};
  const http = createHttpClient({ proxies, resolve: runtime.resolve });
  const client = new ApiClient({
    http,
    access,
    readFile: runtime.readRegularFile,
    clock: runtime.clock,
    userAgent: `signpost/${VERSION}`,
  });
  const locate = async () => (await access()).server;
  const warnings = accessWarnings(first);
  return { client, url: server, locate, warnings, close: () => http.close() };
}

/** Lists and watches until the signal aborts. @throws {FatalError} if the server is a cluster IP */
async function watchApiServer(
  server: ApiServer,
  options: SourceOptions,
  { sink, watchChanged, requests = {}, firstSync }: Receiver,
): Promise<void> {
  const { nodeName, runtime, logger, signal } = options;
  server.client.observer = requests;
  const failed = Promise.withResolvers<never>();
  let isFirst = true;
  const receive = (event: ObjectEvent) => {
    // Later events never end the daemon.
    if (!isFirst || event.kind !== "Service" || event.type !== "replace") return sink(event);
    isFirst = false;
    const change = event.changes.get(API_SERVICE);
    const clusterIPs = change?.type === "upsert" ? change.object.clusterIPs : [];
    const refusal = refuseClusterIPServer(server.url, { clusterIPs });
    if (refusal) failed.reject(new FatalError(refusal));
    else sink(event);
  };
  // As in client-go, the setting for answers wins over the setting for requests.
  const { acceptContentTypes, contentType } = options.configuration.clientConnection;
  const types = (acceptContentTypes || contentType).split(",");
  const rules = new AbortController();
  void firstSync?.then(() => rules.abort());
  const watching = watchAll({
    client: server.client,
    kinds: KINDS,
    nodeName,
    decode: createDecoder(),
    protobuf: types.some((type) => type.trim() === PROTOBUF),
    sink: receive,
    clock: runtime.clock,
    logger,
    watchChanged,
    signal,
    rulesWritten: rules.signal,
  });
  await Promise.race([watching, failed.promise]).finally(server.close);
}

/** Sends a POST request. @returns the HTTP status @throws {WatchError} without an answer */
export async function postJson(
  { client }: ApiServer,
  request: { readonly path: string; readonly body: unknown; readonly signal: AbortSignal },
): Promise<number> {
  const { path, body, signal } = request;
  try {
    const answer = await client.open(path, { method: "POST", body, signal });
    answer.close();
    return answer.status;
  } catch (error) {
    if (error instanceof StatusError) return error.status;
    throw error;
  }
}
