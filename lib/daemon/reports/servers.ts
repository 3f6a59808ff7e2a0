/**
 * The HTTP servers of the daemon: health, metrics, and the health-check node ports.
 *
 * @module
 */
import { inEffect, ownConfiguration, toKubeProxyConfiguration } from "../../config/configz.ts";
import { splitHostPort } from "../../model/cluster/names.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { ModeTraits } from "../../model/kernel/traits.ts";
import type { Finding } from "../../model/status.ts";
import { type EventReport, serverFailedEvent } from "../../observe/events.ts";
import type { Logger } from "../../model/ports/ports.ts";
import { healthServer, metricsServer } from "../../observe/endpoints.ts";
import type { ProxyHealth } from "../../observe/health.ts";
import type { HttpHandler, HttpListen } from "../../model/ports/http.ts";
import type { Metrics } from "../../observe/metrics/metrics.ts";
import { pageHandler } from "../../observe/page/handler.ts";
import type { PageContents } from "../../observe/page/data.ts";
import { serveHttp } from "../../system/http_servers.ts";
import type { Runtime } from "../../model/ports/runtime.ts";
import { FatalError } from "../../model/values/errors.ts";

/** What the servers show. */
export interface ServersOptions {
  readonly configuration: Configuration;
  readonly traits: ModeTraits;
  readonly listen: HttpListen;
  readonly health: ProxyHealth;
  readonly metrics: Metrics;
  readonly findings: () => readonly Finding[];
  /** Facts for `/statusz`. */
  readonly status: () => Readonly<Record<string, string>>;
  /** Gathers the state that the status page shows. */
  readonly page: () => Promise<PageContents>;
  readonly nodeName: string;
  /** Sends an Event. */
  readonly report: (event: EventReport) => void;
  readonly runtime: Pick<Runtime, "clock">;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Serves health and metrics until the signal aborts.
 *
 * @throws {FatalError} where an address cannot be bound and `bindAddressHardFail` is set
 */
export async function serveAll(options: ServersOptions): Promise<void> {
  const { configuration, traits, health, metrics, status, page } = options;
  const { healthzBindAddress, metricsBindAddress } = configuration;
  const healthz = healthServer({
    report: () => health.report(),
    findings: options.findings,
    count: (path, code) => metrics.healthAnswered(path, code),
  });
  const internal = metricsServer({
    metrics: () => metrics.render(),
    clock: options.runtime.clock,
    anyHost: () => configuration.signpost.statusPage === "on",
    proxyMode: () => traits.name,
    configuration: () => toKubeProxyConfiguration(inEffect(configuration, traits)),
    ownConfiguration: () => ownConfiguration(configuration, traits),
    flags: () => flags(configuration),
    status,
    page: (request) =>
      pageHandler({
        setting: configuration.signpost.statusPage,
        bindAddress: metricsBindAddress,
        clock: options.runtime.clock,
        contents: page,
      })(request),
  });
  await Promise.all([
    serve("healthz", healthzBindAddress, { ...options, handler: healthz }),
    serve("metrics", metricsBindAddress, { ...options, handler: internal }),
  ]);
}

async function serve(
  server: "healthz" | "metrics",
  address: string,
  options: ServersOptions & { readonly handler: HttpHandler },
): Promise<void> {
  if (address === "") return;
  const { runtime, logger, signal, handler, listen, configuration, nodeName, report } = options;
  try {
    await serveHttp(splitHostPort(address), {
      name: server,
      handler,
      failed: (error) => report(serverFailedEvent(nodeName, { server, error })),
      hardFail: configuration.bindAddressHardFail,
      listen,
      clock: runtime.clock,
      logger,
      signal,
    });
  } catch (error) {
    throw error instanceof Error ? new FatalError(error.message, { cause: error }) : error;
  }
}

function flags(configuration: Configuration): Record<string, string> {
  const entries = Object.entries(configuration).filter(([, value]) => typeof value !== "object");
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]));
}
