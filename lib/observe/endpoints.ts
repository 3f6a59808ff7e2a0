/** Answers requests to the health and the metrics server as kube-proxy does, and serves the status page. */
import {
  type Configuration,
  inEffect,
  ownConfiguration,
  toKubeProxyConfiguration,
} from "../config/configuration.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import { type Family, FAMILY_NAMES, isLoopback, parseAddress } from "../model/values/address.ts";
import type { Finding, Status } from "../model/status.ts";
import type { Clock } from "../model/ports/ports.ts";
import type { ProxyHealth } from "./health.ts";
import { describeProgress } from "./human.ts";
import {
  type HttpAnswer,
  type HttpHandler,
  type HttpRequest,
  jsonAnswer,
  routePaths,
  textAnswer,
} from "../model/ports/http.ts";
import { redactSecrets } from "./log.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { type PageContents, pageData, readQuery } from "./page/data.ts";
import { plain, plainData } from "../model/values/text.ts";
import { unbracketed } from "../model/cluster/names.ts";
import { Turns } from "../model/ports/in_turns.ts";
import PAGE from "./page/page.html" with { type: "text" };

const NEVER = "0001-01-01T00:00:00Z";

const OTHER_NAME =
  "This path answers only for http://localhost and addresses: --status-page=on allows other names.\n";

/** Returns the handler of the health server: kube-proxy's `/healthz` and `/livez`, and `/readyz`. */
export function healthServer({ pid, health: proxy, metrics, findings }: {
  /** The number of this process. `/readyz?pid=` with another number gets 503. */
  readonly pid: number;
  readonly health: Pick<ProxyHealth, "report">;
  readonly metrics: Pick<Metrics, "healthAnswered">;
  /** Everyone may ask, so the answer has only the kinds of these findings. */
  readonly findings: () => readonly Finding[];
}): HttpHandler {
  const answer = (path: "healthz" | "livez") => (): HttpAnswer => {
    const { healthy, nodeEligible, families, missing, progress, ...health } = proxy.report();
    const isHealthy = healthy && (path === "livez" || nodeEligible);
    const status = isHealthy ? 200 : 503;
    metrics.healthAnswered(path, status);
    const wrong = findings().filter(({ severity }) => severity !== "info");
    const currentTime = formatTime(health.currentTime);
    const lastUpdated = formatTime(health.lastUpdated);
    const body = {
      // A healthy proxy has the present state, even if its last write is long ago.
      lastUpdated: isHealthy ? currentTime : lastUpdated,
      currentTime,
      ...path === "healthz" && { nodeEligible },
      // A finding does not change the HTTP status: a restart would not fix it, and the rules still work.
      healthy: healthy && wrong.every(({ severity }) => severity !== "error"),
      ...progress && { progress: describeProgress(progress) },
      ...families.length > 0 && {
        status: byName(families.map((family) => [family, { lastUpdated, healthy }])),
      },
      ...missing.size > 0 && { missing: byName(missing) },
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
        ({ search = "" }) => {
          // A waiting pod on the host's network must not take the answer of the old daemon for its own.
          const asked = new URLSearchParams(search).get("pid");
          if (asked !== null && asked !== String(pid)) {
            return textAnswer(
              `the daemon that answers here is not process ${Number(asked)}\n`,
              503,
            );
          }
          return proxy.report().lastUpdated === undefined
            ? textAnswer("no rules are written yet\n", 503)
            : textAnswer("ok\n");
        },
      ],
    ]),
  );
}

function byName(values: Iterable<readonly [Family, unknown]>): object {
  return Object.fromEntries(
    Array.from(values, ([family, value]) => [FAMILY_NAMES[family], value]),
  );
}

function formatTime(milliseconds: number | undefined): string {
  return milliseconds === undefined ? NEVER : new Date(milliseconds).toISOString();
}

export interface MetricsServerOptions {
  readonly metrics: Pick<Metrics, "render">;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  readonly configuration: Configuration;
  readonly traits: ModeTraits;
  readonly status: () => Status;
  readonly page: () => PageContents | Promise<PageContents>;
}

export function metricsServer(options: MetricsServerOptions): HttpHandler {
  const { configuration, traits, clock } = options;
  const ok = () => textAnswer("ok");
  const metrics = atMostOnceASecond(() => options.metrics.render(), clock);
  const page = pageHandler(options);
  const configz = atMostOnceASecond(() =>
    jsonAnswer(JSON.stringify({
      // kube-proxy registers its configuration under the API group.
      "kubeproxy.config.k8s.io": toKubeProxyConfiguration(inEffect(configuration, traits)),
      signpost: ownConfiguration(configuration, traits),
    })), clock);
  const statusz = atMostOnceASecond(() => {
    const { portions, ...status } = options.status();
    const progress = portions && { portions: `${portions.done} of ${portions.of}` };
    return factsPage("statusz", factsIn({ ...status, ...progress }, ": "));
  }, clock);
  const local = (answer: () => HttpAnswer | Promise<HttpAnswer>): HttpHandler => ({ host }) =>
    configuration.signpost.statusPage === "on" || isLocalName(host)
      ? answer()
      : textAnswer(OTHER_NAME, 403);
  return routePaths(
    new Map<string, HttpHandler>([
      ["/", page],
      [DATA_PATH, page],
      ["/healthz", ok],
      ["/healthz/ping", ok],
      ["/metrics", async () => {
        const { contentType, body } = await metrics();
        return { status: 200, headers: { "Content-Type": contentType }, body };
      }],
      ["/proxyMode", () => textAnswer(traits.name)],
      ["/configz", local(configz)],
      ["/flagz", local(() => factsPage("flagz", factsIn(configuration, "=")))],
      ["/statusz", local(statusz)],
    ]),
  );
}

/** Shares an answer among equal requests within a second. A different request waits for the next second. */
function atMostOnceASecond<T>(
  make: (question: string) => T | Promise<T>,
  clock: Pick<Clock, "sleep">,
): (question?: string) => Promise<T> {
  let current: { question: string; answer: Promise<T>; over: Promise<unknown> } | undefined;
  return async (question = "") => {
    while (current && current.question !== question) await current.over;
    if (!current) {
      const answer = (async () => await make(question))();
      const over = Promise.allSettled([answer, clock.sleep(1_000)]).then(() => current = undefined);
      current = { question, answer, over };
    }
    return await current.answer;
  };
}

function factsIn(facts: object, separator: string): string {
  return Object.entries(facts).filter(([, value]) => typeof value !== "object")
    .map(([name, value]) => `${name}${separator}${plain(redactSecrets(String(value)))}\n`).join("");
}

function factsPage(title: string, lines: string): HttpAnswer {
  return textAnswer(`signpost ${title}\nFor people to read; the format may change.\n\n${lines}`);
}

function hostOf(authority: string): string {
  return unbracketed(authority.replace(/:\d*$/, ""));
}

/** Returns true for addresses, `localhost` and an empty Host: a foreign site (DNS rebinding) cannot have these. */
function isLocalName(authority = ""): boolean {
  const host = hostOf(authority);
  return host === "" || host === "localhost" || parseAddress(host) !== undefined;
}

export const DATA_PATH = "/page.json";

/** Returns the policy that allows only the page's own style and script, and its JSON. */
export async function contentSecurityPolicy(): Promise<string> {
  return [
    "default-src 'none'",
    `style-src '${await hashOf("style")}'`,
    `script-src '${await hashOf("script")}'`,
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

async function hashOf(tag: "style" | "script"): Promise<string> {
  const [, text = ""] = PAGE.split(new RegExp(`</?${tag}>`));
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return `sha256-${new Uint8Array(hash).toBase64()}`;
}

const HEADERS: Readonly<Record<string, string>> = {
  "Cache-Control": "no-store",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};

/** Answers with the page or its JSON, or with 403 and a line that says how to switch the page on. */
export function pageHandler(
  options: Pick<MetricsServerOptions, "configuration" | "clock" | "page">,
): HttpHandler {
  const { configuration, clock, page } = options;
  let policy: Promise<string> | undefined;
  const answer = async (type: string, body: string) => {
    policy ??= contentSecurityPolicy();
    const headers = { "Content-Type": type, "Content-Security-Policy": await policy, ...HEADERS };
    return { status: 200, headers, body };
  };
  const json = atMostOnceASecond(async (search) => {
    const data = pageData(await page(), readQuery(search));
    const shown = plainData(await new Turns(clock).run(data));
    return answer("application/json", JSON.stringify(shown));
  }, clock);
  return async (request) => {
    const refusal = refusalOf(request, configuration);
    if (refusal !== undefined) return textAnswer(`${refusal}\n`, 403);
    if (request.path !== DATA_PATH) return answer("text/html; charset=utf-8", PAGE);
    return await json(request.search ?? "");
  };
}

function refusalOf(
  { host }: HttpRequest,
  { metricsBindAddress: bindAddress, signpost: { statusPage: setting } }: Configuration,
): string | undefined {
  if (setting === "on") return undefined;
  if (setting === "off") return "The status page is off: see --status-page.";
  const address = parseAddress(hostOf(bindAddress));
  if (address === undefined || !isLoopback(address)) {
    return `The status page is off, because this server listens on ${bindAddress}, not on loopback alone: --status-page=on shows it to everyone who can connect.`;
  }
  return isLocalName(host)
    ? undefined
    : "The status page answers only for http://localhost and addresses: --status-page=on allows other names.";
}
