/** Runs the health server and the metrics server. */
import { splitHostPort } from "../../model/cluster/names.ts";
import type { HttpHandler, HttpListen } from "../../model/ports/http.ts";
import type { Clock, Logger } from "../../model/ports/ports.ts";
import { fatalIf } from "../../model/values/errors.ts";
import {
  healthServer,
  type HealthServerOptions,
  metricsServer,
  type MetricsServerOptions,
} from "../../observe/endpoints.ts";
import { type EventReport, serverFailedEvent } from "../../observe/events.ts";
import type { Metrics } from "../../observe/metrics/metrics.ts";
import { serveHttp } from "../../system/http_servers.ts";

interface ServersOptions extends HealthServerOptions, MetricsServerOptions {
  readonly metrics: Metrics;
  readonly listen: HttpListen;
  readonly clock: Clock;
  readonly nodeName: string;
  readonly report: (event: EventReport) => void;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Serves until the abort. @throws {FatalError} if `bindAddressHardFail` is set and an address is taken */
export async function serveAll(options: ServersOptions): Promise<void> {
  const { configuration: { healthzBindAddress, metricsBindAddress } } = options;
  await Promise.all([
    serve("healthz", { ...options, address: healthzBindAddress, handler: healthServer(options) }),
    serve("metrics", { ...options, address: metricsBindAddress, handler: metricsServer(options) }),
  ]);
}

async function serve(
  server: "healthz" | "metrics",
  options: ServersOptions & { readonly address: string; readonly handler: HttpHandler },
): Promise<void> {
  const { address, configuration, nodeName, report } = options;
  if (address === "") return;
  await serveHttp(splitHostPort(address), {
    ...options,
    name: server,
    failed: (error) => report(serverFailedEvent(nodeName, { server, error })),
    hardFail: configuration.bindAddressHardFail,
  }).catch(fatalIf(Error));
}
