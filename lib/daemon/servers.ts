/** Serves health, metrics, and the local socket of the daemon. */
import { knownGates } from "../config/checks.ts";
import { finding } from "../findings/catalog.ts";
import { splitHostPort } from "../model/cluster/names.ts";
import { Turns } from "../model/ports/in_turns.ts";
import { fatalIf } from "../model/values/errors.ts";
import { healthServer, metricsServer } from "../observe/endpoints.ts";
import { nodeEvent } from "../observe/events.ts";
import { serveHttp } from "../system/http_servers.ts";
import { processUsage } from "../system/runtime.ts";
import { serveSocket, type SocketRoutes } from "../system/socket.ts";
import { stateText } from "../system/state_file.ts";
import type { Parts } from "./parts.ts";
import { explanation } from "./reports/explanation.ts";
import { asOf, desiredInputs, statusReport } from "./reports/status_report.ts";

/** Serves health and metrics. @throws {FatalError} if `bindAddressHardFail` is set and an address is taken */
export async function serveAll(parts: Parts, signal: AbortSignal): Promise<void> {
  const { configuration, nodeName, runtime: { clock }, logger, servers } = parts.options;
  const { findingsChanged, observation: { serverFailures }, report } = parts;
  const serving = serversOf(parts).filter(({ address }) => address !== "").map(
    ({ name, address, reason, handler }) =>
      serveHttp(splitHostPort(address), {
        name,
        handler,
        hardFail: configuration.bindAddressHardFail,
        listen: servers.keep,
        failed: (what) => {
          report(nodeEvent(nodeName, { type: "Warning", reason, note: what }));
          serverFailures.set(name, finding("own-port-taken", { what, where: address }));
          findingsChanged.set();
        },
        listening: () => {
          if (serverFailures.delete(name)) findingsChanged.set();
        },
        clock,
        logger,
        signal,
      }),
  );
  await Promise.all(serving).catch(fatalIf(Error));
}

/** Returns the health and the metrics server. The reasons of their Events are kube-proxy's. */
function serversOf(parts: Parts) {
  const { options: { configuration, runtime: { clock, pid } }, opened: { backend } } = parts;
  const { health, metrics, findings, desired, connections, history } = parts;
  const status = () => statusReport(parts);
  addReadings(parts);
  return [{
    name: "healthz",
    address: configuration.healthzBindAddress,
    reason: "FailedToStartProxierHealthcheck",
    handler: healthServer({ pid, health, metrics, findings: () => findings.list }),
  }, {
    name: "metrics",
    address: configuration.metricsBindAddress,
    reason: "FailedToStartMetricServer",
    handler: metricsServer({
      metrics,
      clock,
      configuration,
      traits: backend.traits,
      status,
      page: async () => ({
        connections: await connections.list(),
        status: status(),
        services: desired.services,
        historyOf: (service) => history.changes(service),
        now: clock.now(),
      }),
    }),
  }];
}

function addReadings({ options, opened: { backend }, ...parts }: Parts): void {
  const { connections, desired, findings, loop, metrics, keeper, observation } = parts;
  metrics.read({
    localhost: backend.traits.localhostNodePorts === "listeners" ? options.localhost : undefined,
    observed: observation,
    sync: () => loop.progress,
    desired,
    snapshotAge: () => keeper?.age(),
    isStale: () => loop.stale,
    findings: () => findings.list,
    refused: parts.refusals,
    connections: connections.isOn ? () => connections.batches() : undefined,
    process: processUsage(),
    featureGates: knownGates(options.configuration),
  });
}

/** Answers at the local socket, if it is configured, until the signal aborts. */
export async function answerSocket(parts: Parts): Promise<void> {
  const { configuration, runtime: { clock }, logger, signal } = parts.options;
  const path = configuration.signpost.socket;
  if (path === "") return;
  await serveSocket({ path, routes: socketRoutes(parts), clock, logger, signal });
}

/** Returns the answers of the local socket. Its clients are `lib/cli/client.ts`. */
export function socketRoutes(parts: Parts): SocketRoutes {
  const { options, findings, connections, loop } = parts;
  return {
    "GET /v1/status": async (query) => {
      if (query.has("fresh")) await findings.refresh();
      return statusReport(parts);
    },
    "GET /v1/objects": () => objects(parts),
    "GET /v1/services": () => [...parts.cache.services.keys()],
    "GET /v1/explain": (query) => explanation(parts, query),
    "GET /v1/connections": (query) => {
      const top = query.get("top") ?? "";
      return connections.report(/^\d{1,9}$/.test(top) ? Number(top) : undefined);
    },
    "GET /v1/command-line": () => options.commandLine,
    "GET /v1/inputs": () => desiredInputs(parts),
    "GET /v1/history": () => ({ log: options.recentLog, changes: parts.history.changes() }),
    "POST /v1/full-sync": () => {
      loop.requestFull("asked for at the local socket");
      return { requested: true };
    },
  };
}

/** Returns all objects as the text of a state. */
function objects(parts: Parts): ReadableStream<Uint8Array> | undefined {
  const { cache, options: { nodeName, runtime: { clock } } } = parts;
  if (!cache.consistent) return undefined;
  const turns = new Turns(clock);
  const pause = () => turns.yieldIfDue();
  return ReadableStream.from(stateText(cache, { nodeName, written: asOf(parts), pause }));
}
