/**
 * The paths of the health server (:10256) and of the metrics server (127.0.0.1:10249), with
 * kube-proxy's bodies, headers and status codes.
 *
 * @module
 */
import { FAMILY_NAMES } from "../model/values/address.ts";
import type { Finding } from "../model/status.ts";
import type { Clock } from "../model/ports/ports.ts";
import type { HealthReport } from "./health.ts";
import { describeProgress } from "./human.ts";
import {
  type HttpAnswer,
  type HttpHandler,
  jsonAnswer,
  routePaths,
  textAnswer,
} from "../model/ports/http.ts";
import { isLocalName } from "./local_names.ts";
import { redactSecrets } from "./redact.ts";
import { DATA_PATH } from "./page/handler.ts";
import { plain } from "../model/values/text.ts";

/** What a time looks like that never was: Go's zero time. */
const NEVER = "0001-01-01T00:00:00Z";

/** The answer to who asks by another name. */
const OTHER_NAME =
  "This path answers http://localhost and addresses; for other names there is --status-page=on.\n";

/** What the health server needs. */
export interface HealthServerOptions {
  readonly report: () => HealthReport;
  /** The present node findings. Their kinds are shown, not their values: whoever asks gets the answer. */
  readonly findings: () => readonly Finding[];
  /** Counts an answer (`kubeproxy_proxy_healthz_total`, `kubeproxy_proxy_livez_total`). */
  readonly count: (path: "healthz" | "livez", status: number) => void;
}

/** Handler of the health server: `/healthz` and `/livez` as kube-proxy has them, and `/readyz`. */
export function healthServer({ report, findings, count }: HealthServerOptions): HttpHandler {
  const answer = (path: "healthz" | "livez") => (): HttpAnswer => {
    const health = report();
    const isHealthy = health.healthy && (path === "livez" || health.nodeEligible);
    const status = isHealthy ? 200 : 503;
    count(path, status);
    const wrong = findings().filter(({ severity }) => severity !== "info");
    const body = {
      ...healthBody(health, { path, isHealthy }),
      // The status stays: a restart mends no finding, and the rules in the kernel still serve.
      ...wrong.some(({ severity }) => severity === "error") && { healthy: false },
      ...wrong.length > 0 && { findings: [...new Set(wrong.map(({ id }) => id))] },
    };
    return jsonAnswer(JSON.stringify(body), status);
  };
  return routePaths(
    new Map([
      ["/healthz", answer("healthz")],
      ["/livez", answer("livez")],
      [
        "/readyz",
        () =>
          report().lastUpdated === undefined
            ? textAnswer("no rules are written yet\n", 503)
            : textAnswer("ok\n"),
      ],
    ]),
  );
}

function healthBody(
  health: HealthReport,
  { path, isHealthy }: { readonly path: "healthz" | "livez"; readonly isHealthy: boolean },
): object {
  const currentTime = formatTime(health.currentTime);
  const { healthy } = health;
  const lastUpdated = formatTime(health.lastUpdated);
  const status = Object.fromEntries(
    health.families.map((family) => [FAMILY_NAMES[family], { lastUpdated, healthy }]),
  );
  return {
    // A healthy proxy has the present state, though nothing may have been written for long.
    lastUpdated: isHealthy ? currentTime : lastUpdated,
    currentTime,
    ...(path === "healthz" && { nodeEligible: health.nodeEligible }),
    healthy,
    ...(health.progress && { progress: describeProgress(health.progress) }),
    ...(health.families.length > 0 && { status }),
    ...(health.missing.size > 0 && {
      missing: Object.fromEntries(
        [...health.missing].map(([family, reason]) => [FAMILY_NAMES[family], reason]),
      ),
    }),
  };
}

function formatTime(milliseconds: number | undefined): string {
  return milliseconds === undefined ? NEVER : new Date(milliseconds).toISOString();
}

interface MetricsText {
  readonly contentType: string;
  readonly body: string;
}

/** What the metrics server needs. */
export interface MetricsServerOptions {
  /** The metrics in Prometheus' text format. */
  readonly metrics: () => Promise<MetricsText>;
  readonly clock: Pick<Clock, "sleep">;
  /** Returns true if `/configz`, `/flagz` and `/statusz` answer whatever name the client asks for. */
  readonly anyHost: () => boolean;
  /** `nftables` or `iptables`. */
  readonly proxyMode: () => string;
  /** The configuration as KubeProxyConfiguration, without secrets. */
  readonly configuration: () => unknown;
  /** What KubeProxyConfiguration has no word for. */
  readonly ownConfiguration: () => unknown;
  /** Flags in force, by name. */
  readonly flags: () => Readonly<Record<string, string>>;
  /** Facts about the process, by name, for people. */
  readonly status: () => Readonly<Record<string, string>>;
  /** The status page and its JSON. */
  readonly page: HttpHandler;
}

/** Handler of the metrics server. */
export function metricsServer(options: MetricsServerOptions): HttpHandler {
  const ok = () => textAnswer("ok");
  const metrics = atMostOnceASecond(options.metrics, options.clock);
  const local = (answer: () => HttpAnswer): HttpHandler => ({ host }) =>
    options.anyHost() || isLocalName(host) ? answer() : textAnswer(OTHER_NAME, 403);
  return routePaths(
    new Map<string, HttpHandler>([
      ["/", options.page],
      [DATA_PATH, options.page],
      ["/healthz", ok],
      ["/healthz/ping", ok],
      ["/metrics", async () => {
        const { contentType, body } = await metrics();
        return { status: 200, headers: { "Content-Type": contentType }, body };
      }],
      ["/proxyMode", () => textAnswer(options.proxyMode())],
      // The key is the API group, under which kube-proxy registers its configuration.
      [
        "/configz",
        local(() =>
          jsonAnswer(JSON.stringify({
            "kubeproxy.config.k8s.io": options.configuration(),
            signpost: options.ownConfiguration(),
          }))
        ),
      ],
      [
        "/flagz",
        local(() => textAnswer(page("flagz", { facts: options.flags(), separator: "=" }))),
      ],
      [
        "/statusz",
        local(() => textAnswer(page("statusz", { facts: options.status(), separator: ": " }))),
      ],
    ]),
  );
}

/** Shares a text among all who ask while it is worked out, and for a second from the first one on. */
function atMostOnceASecond<T>(make: () => Promise<T>, clock: Pick<Clock, "sleep">) {
  let current: Promise<T> | undefined;
  return () => {
    if (!current) {
      current = make();
      void Promise.allSettled([current, clock.sleep(1_000)]).then(() => current = undefined);
    }
    return current;
  };
}

interface PageOptions {
  readonly facts: Readonly<Record<string, string>>;
  readonly separator: string;
}

function page(title: string, { facts, separator }: PageOptions): string {
  const lines = Object.entries(facts).map(([name, value]) =>
    `${name}${separator}${plain(redactSecrets(value))}`
  );
  return `signpost ${title}\nFor people to read; the format may change.\n\n${lines.join("\n")}\n`;
}
