import { assert, assertEquals } from "@std/assert";
import { parse } from "@std/yaml";
import { stringify } from "@std/yaml/stringify";
import type { Mode } from "../../lib/model/configuration.ts";
import { Metrics, type MetricsSources } from "../../lib/observe/metrics/metrics.ts";
import { unpackedProgram } from "../../tools/unpacked.ts";
import { run } from "../support/command.ts";
import { CHART } from "./helm.ts";
import { groupings, selectors } from "./promql.ts";
import { backendOf } from "../support/modes.ts";
import { service } from "../policy/objects.ts";
import { Pipeline } from "../support/pipeline.ts";
import { NO_PROGRESS, NO_WORK, NOTHING_SEEN, WATCHES } from "../observe/support/work.ts";
import { connectionsTo } from "../support/cluster.ts";
import { makeFolder } from "../support/folder.ts";

const FOLDER = `${CHART}/monitoring/`;
/** Labels that Prometheus adds itself. */
const TARGET_LABELS = ["job", "instance"];
const TARGET_METRICS = ["up"];

interface Rule {
  readonly alert: string;
  readonly expr: string;
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; h: number };
  readonly targets?: readonly { readonly refId: string; readonly expr: string }[];
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; query: unknown }[] };
}

const alerts = (parse(await Deno.readTextFile(`${FOLDER}alerts.yaml`)) as {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
}).groups.flatMap(({ rules }) => rules);
const dashboard = JSON.parse(await Deno.readTextFile(`${FOLDER}dashboard.json`)) as Dashboard;
const queries = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

/** Renders the metrics of a daemon that has done each kind of work. */
async function metricsOf(mode: Mode, more: Partial<MetricsSources> = {}) {
  const backend = backendOf(mode);
  const pipeline = new Pipeline({ mode });
  await pipeline.apply(backend.dataplane, [service("web")]);
  const metrics = new Metrics({ backend: backend.metrics, families: [4, 6] });
  metrics.read({
    ...NO_WORK,
    observed: { ...NOTHING_SEEN, watches: WATCHES },
    sync: () => ({ ...NO_PROGRESS, queued: 1, synced: 1 }),
    snapshotAge: () => 1,
    connections: async function* () {
      yield [connectionsTo(), connectionsTo({ reason: "no-endpoints" })];
    },
    featureGates: [{ name: "Gate", stage: "", enabled: true }],
    ...more,
  });
  recordEverything(metrics);
  return await metrics.render();
}

/** Every metric that a daemon can show, with its labels. */
async function exposedMetrics(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const found = new Map<string, Set<string>>();
  for (const mode of ["nftables", "iptables"] as const) {
    const { body } = await metricsOf(mode);
    for (const [, name = "", , labels = ""] of body.matchAll(/^(\w+)(\{(.*)\})? \S+$/gm)) {
      const names = [...labels.matchAll(/(\w+)="/g)].map(([, label = ""]) => label);
      found.set(name, new Set([...found.get(name) ?? [], ...names]));
    }
  }
  return found;
}

function recordEverything(metrics: Metrics): void {
  for (const kind of ["full", "partial"] as const) {
    metrics.synced({ kind, text: "", bytes: 1, operations: 1 }, 1);
    metrics.syncFailed(kind);
  }
  metrics.networkProgrammed(1);
  metrics.conntrackReconciled(4, { seconds: 1, deleted: 1 });
  metrics.healthAnswered("healthz", 200);
  metrics.programFailures.inc({ program: "nft", reason: "timeout" });
  metrics.refusals.inc({ kind: "Service" });
  metrics.requestDone({ verb: "GET", host: "h", code: "200", duration: 1_000, size: 0 });
}

const variables = dashboard.templating.list
  .map(({ query }) => (query as { readonly query?: string }).query ?? "")
  .map((query) => /^label_values\((.*), \w+\)$/.exec(query)?.[1] ?? "");

Deno.test("every metric and label in the alerts and on the dashboard is signpost's", async () => {
  const exposed = await exposedMetrics();
  const wrong = [...alerts.map(({ expr }) => expr), ...queries, ...variables].flatMap((expr) => {
    const named = selectors(expr);
    const known = new Set([
      ...TARGET_LABELS,
      ...named.flatMap(({ metric }) => [...exposed.get(metric) ?? []]),
    ]);
    return [
      ...named.map(({ metric }) => metric)
        .filter((metric) => !exposed.has(metric) && !TARGET_METRICS.includes(metric)),
      ...named.flatMap(({ metric, labels }) =>
        labels.filter((label) =>
          !TARGET_LABELS.includes(label) && exposed.get(metric)?.has(label) !== true
        ).map((label) => `${metric}{${label}}`)
      ),
      ...groupings(expr).filter((label) => !known.has(label)).map((label) =>
        `by ${label}: ${expr}`
      ),
    ];
  });
  assertEquals(wrong, []);
});

Deno.test("selectors finds metrics, not functions, labels or durations", () => {
  assertEquals(
    selectors('sum by (le) (rate(a_bucket{x="y{z}", job=~"$j"}[5m])) or vector(0) - time() > b'),
    [{ metric: "a_bucket", labels: ["x", "job"] }, { metric: "b", labels: [] }],
  );
});

Deno.test("each panel of the dashboard has its own place, title and queries", () => {
  const { panels } = dashboard;
  const shown = panels.filter(({ type }) => type !== "row");
  assertEquals(new Set(panels.map(({ id }) => id)).size, panels.length);
  assertEquals(new Set(panels.map(({ title }) => title)).size, panels.length);
  assertEquals(shown.filter(({ targets = [] }) => targets.length === 0), []);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, i) => `${x + i % w},${y + Math.floor(i / w)}`)
  );
  assertEquals(cells.length, new Set(cells).size, "panels overlap");
  assert(cells.every((cell) => Number(cell.split(",")[0]) < 24), "a panel leaves the grid");
});

Deno.test("each alert has a case that fires it", async () => {
  const cases = await Deno.readTextFile(`${FOLDER}alerts_test.yaml`);
  const fired = new Set([...cases.matchAll(/alertname="(\w+)"|alertname: (\w+)/g)]
    .map(([, first, second]) => first ?? second));
  assertEquals(new Set(alerts.map(({ alert }) => alert)), fired);
});

const promtool = await unpackedProgram({ name: "promtool", package: "prometheus" });
// deno-lint-ignore no-console
if (promtool === undefined) console.log("promtool cannot be had here: its checks are left out.");

Deno.test({
  name: "promtool takes the alerts, their cases and the dashboard's queries",
  ignore: promtool === undefined,
  fn: async () => {
    const check = (...args: string[]) => run([promtool ?? "", ...args]);
    await check("check", "rules", `${FOLDER}alerts.yaml`);
    await check("test", "rules", `${FOLDER}alerts_test.yaml`);
    const plain = queries.map((expr) => expr.replaceAll("$__rate_interval", "5m"));
    const rules = plain.map((expr, i) => ({ record: `panel:query:${i}`, expr }));
    await using folder = await makeFolder("dashboard");
    const file = `${folder.path}/rules.yaml`;
    await Deno.writeTextFile(file, stringify({ groups: [{ name: "dashboard", rules }] }));
    await check("check", "rules", file);
  },
});

/** The alerts of kubernetes-mixin (Apache-2.0) that look at the version and the job of kube-proxy. */
const MIXIN = [
  {
    alert: "KubeVersionMismatch",
    expr:
      'count by (cluster) (count by (git_version, cluster) (label_replace(kubernetes_build_info{job!~"kube-dns|coredns"},"git_version","$1","git_version","(v[0-9]*.[0-9]*).*"))) > 1',
    for: "15m",
  },
  { alert: "KubeProxyDown", expr: 'absent(up{job="kube-proxy"} == 1)', for: "15m" },
];

/** Runs promtool: the alerts that fire 30 minutes after the scrape of a cluster with these components. */
async function mixinFires(
  components: readonly { readonly job: string; readonly version: string }[],
  alerts: readonly string[],
): Promise<void> {
  await using folder = await makeFolder("mixin");
  await Deno.writeTextFile(
    `${folder.path}/rules.yaml`,
    stringify({ groups: [{ name: "a", rules: MIXIN }] }),
  );
  const series = components.flatMap(({ job, version }) => [
    { series: `up{job="${job}",instance="${job}-1"}`, values: "1x60" },
    { series: `kubernetes_build_info{job="${job}",git_version="${version}"}`, values: "1x60" },
  ]);
  const test = {
    interval: "1m",
    input_series: series,
    promql_expr_test: [{
      expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: "30m",
      exp_samples: alerts.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })),
    }],
  };
  await Deno.writeTextFile(
    `${folder.path}/test.yaml`,
    stringify({ rule_files: ["rules.yaml"], evaluation_interval: "1m", tests: [test] }),
  );
  await run([promtool ?? "", "test", "rules", `${folder.path}/test.yaml`]);
}

Deno.test({
  name: "kubernetes-mixin's alerts are quiet beside signpost, with the documented job",
  ignore: promtool === undefined,
  fn: async () => {
    const page = await Deno.readTextFile(new URL("../../docs/metrics.md", import.meta.url));
    const job = /job_name: (\S+)/.exec(page)?.[1] ?? "";
    const { body } = await metricsOf("nftables", {
      observed: { ...NOTHING_SEEN, watches: WATCHES, serverVersion: "1.33.4" },
    });
    const version = /git_version="([^"]*)"/.exec(body)?.[1] ?? "";
    const server = { job: "apiserver", version: "v1.33.4+k3s1" };
    await mixinFires([server, { job, version }], []);
    // The rules do fire for another version and job.
    await mixinFires([server, { job: "signpost", version: "v1.37.2+signpost.0.1.0" }], [
      "KubeVersionMismatch",
      "KubeProxyDown",
    ]);
  },
});
