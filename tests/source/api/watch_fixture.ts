/** A watch of one kind against a test API server of its own. */
import type { Kind } from "../../../lib/model/cluster/objects.ts";
import { loadAccess } from "../../../lib/source/api/access/access_source.ts";
import { ApiClient } from "../../../lib/source/api/api_client.ts";
import { createHttpClient } from "../../../lib/system/http_client.ts";
import { watchAll, type WatchStatus } from "../../../lib/source/api/reflector.ts";
import type { WatchLimits } from "../../../lib/source/api/limits.ts";
import type { RequestType } from "../../support/api_faults.ts";
import {
  ApiServer,
  type ApiServerOptions,
  type RequestRecord,
  typeOf,
} from "../../support/api_server.ts";
import type { ApiObject } from "../../support/api_store.ts";
import { makeCertificates } from "../../support/certificates.ts";
import { eventually } from "../../support/eventually.ts";
import { fakeDecode, MemorySink } from "./fakes.ts";
import { MemoryLogger, realClock } from "../../support/clock_and_log.ts";
import { service as buildService } from "../../support/cluster.ts";
import { makeFolder } from "../../support/folder.ts";

/** A Service whose version shows in the sink. */
export function service(
  name: string,
  version: string,
  labels: Readonly<Record<string, string>> = {},
): ApiObject {
  return buildService({ name, metadata: { labels: { ...labels, version } } });
}

export interface WatchSetup {
  /** `Service` by default, with the object `default/a` of version 1. */
  readonly kind?: Kind;
  /** Several kinds instead. */
  readonly kinds?: readonly Kind[];
  readonly server?: ApiServerOptions;
  /** True by default. */
  readonly protobuf?: boolean;
  readonly limits?: Partial<WatchLimits>;
  /** How many Services there are at the start: `a`, `extra-1` and so on. */
  readonly objects?: number;
  /** The user of the kubeconfig. */
  readonly user?: Readonly<Record<string, unknown>>;
  /** Called when the server runs, before the watch starts. */
  readonly early?: (server: ApiServer, folder: string) => void | Promise<void>;
}

export interface Watched {
  readonly server: ApiServer;
  readonly sink: MemorySink;
  readonly logger: MemoryLogger;
  /** A folder of the test's own; `kubeconfig` in it is what the watch uses. */
  readonly folder: string;
  status(): WatchStatus;
  requests(type: RequestType): readonly RequestRecord[];
}

/** Runs a test once the first state is in, or at once where `waitForList` is false. */
export async function withWatch(
  setup: WatchSetup & { readonly waitForList?: boolean },
  test: (watched: Watched) => Promise<void>,
): Promise<void> {
  await using temporary = await makeFolder("watch");
  const folder = temporary.path;
  const certificates = await makeCertificates(folder);
  await using server = new ApiServer({ certificates, ...setup.server });
  const stop = new AbortController();
  const http = createHttpClient();
  const { kind = "Service" } = setup;
  fill(server, setup.objects ?? 1);
  await server.start();
  const kubeconfig = `${folder}/kubeconfig`;
  await Deno.writeTextFile(kubeconfig, server.kubeconfig(setup.user));
  await setup.early?.(server, folder);
  const sink = new MemorySink();
  const logger = new MemoryLogger();
  let status: WatchStatus | undefined;
  const readFile = (path: string) => Deno.readTextFile(path);
  const access = () =>
    loadAccess({ kubeconfig, master: "", environment: () => undefined, readFile });
  const client = new ApiClient({ http, access, readFile, clock: realClock, userAgent: "test" });
  const watching = watchAll({
    kinds: setup.kinds ?? [kind],
    client,
    nodeName: "node-1",
    decode: fakeDecode,
    protobuf: setup.protobuf ?? true,
    sink: sink.take,
    clock: realClock,
    logger,
    watchChanged: (changed) => void (status = changed),
    signal: stop.signal,
    limits: { backoff: { first: 10, longest: 50 }, ...setup.limits },
  });
  try {
    if (setup.waitForList !== false) {
      await eventually("the first list", () => {
        if (sink.events.length > 0) return true;
        throw new Error(logger.lines.at(-1) ?? "no log line");
      }, { interval: 5 });
    }
    await test({
      server,
      sink,
      logger,
      folder,
      status: () => {
        if (status === undefined) throw new Error("no status yet");
        return status;
      },
      requests: (type) => server.requests.filter((request) => typeOf(request) === type),
    });
  } finally {
    stop.abort();
    await watching;
    http.close();
  }
}

function fill(server: ApiServer, count: number): void {
  server.store.put(service("a", "1"));
  for (let index = 1; index < count; index++) server.store.put(service(`extra-${index}`, "1"));
}
