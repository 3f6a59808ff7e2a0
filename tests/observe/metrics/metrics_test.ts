import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { CATALOG, finding } from "../../../lib/findings/catalog.ts";
import { COMMIT } from "../../../lib/model/commit.ts";
import type { Family } from "../../../lib/model/values/address.ts";
import { VERSION } from "../../../lib/model/version.ts";
import type { ProxyTakeOver } from "../../../lib/backend/take_over.ts";
import { Metrics, type MetricsSources } from "../../../lib/observe/metrics/metrics.ts";
import { processUsage } from "../../../lib/system/runtime.ts";
import { START } from "../../support/clock_and_log.ts";
import { backendOf, type Mode } from "../../support/modes.ts";
import { service } from "../../policy/objects.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { NO_PROGRESS, NO_WORK, NOTHING_SEEN, WATCHES } from "../support/work.ts";
import { connectionsTo } from "../../support/cluster.ts";
import { wordsOf } from "../../support/table.ts";

function start(
  { mode = "nftables", backend = backendOf(mode).metrics, families = [4, 6], ...sources }:
    & Partial<ConstructorParameters<typeof Metrics>[0] & MetricsSources>
    & { readonly mode?: Mode } = {},
) {
  const metrics = new Metrics({ backend, families });
  metrics.read({
    ...NO_WORK,
    snapshotAge: () => 7,
    process: {
      memory: () => ({ rss: 1024, heapTotal: 30, heapUsed: 20, external: 10 }),
      cpu: () => 2.5,
      started: 100,
      platform: "linux/arm64",
    },
    featureGates: [
      { name: "AllowServiceExternalIPs", stage: "", enabled: false },
      { name: "MultiCIDRServiceAllocator", stage: "", enabled: true },
    ],
    ...sources,
  });
  return metrics;
}

function samples(body: string, name: string): string[] {
  return body.split("\n").filter((line) => new RegExp(`^${name}(?:{| )`).test(line));
}

function names(body: string): string[] {
  return [...body.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name ?? "").sort();
}

const COMMON = wordsOf(`
  kubeproxy_conntrack_reconciler_deleted_entries_total
  kubeproxy_conntrack_reconciler_sync_duration_seconds
  kubeproxy_network_programming_duration_seconds kubeproxy_proxy_healthz_total
  kubeproxy_proxy_livez_total kubeproxy_sync_full_proxy_rules_duration_seconds
  kubeproxy_sync_partial_proxy_rules_duration_seconds kubeproxy_sync_proxy_rules_duration_seconds
  kubeproxy_sync_proxy_rules_endpoint_changes_pending
  kubeproxy_sync_proxy_rules_endpoint_changes_total
  kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds
  kubeproxy_sync_proxy_rules_last_timestamp_seconds
  kubeproxy_sync_proxy_rules_no_local_endpoints_total
  kubeproxy_sync_proxy_rules_service_changes_pending
  kubeproxy_sync_proxy_rules_service_changes_total kubernetes_build_info
  kubernetes_feature_enabled nodejs_external_memory_bytes nodejs_heap_size_total_bytes
  nodejs_heap_size_used_bytes process_cpu_seconds_total process_resident_memory_bytes
  process_start_time_seconds rest_client_request_duration_seconds
  rest_client_request_retries_total rest_client_request_size_bytes rest_client_requests_total
  rest_client_response_size_bytes
`);

const BY_MODE: Readonly<Record<Mode, readonly string[]>> = {
  nftables: [
    "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
    "kubeproxy_nftables_localhost_nodeport_listeners",
    "kubeproxy_nftables_localhost_nodeport_rejected_packets_total",
  ],
  iptables: [
    "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
    "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
  ],
};

/** Counts of listeners on loopback, none of which is 0. */
const LOCALHOST: MetricsSources["localhost"] = {
  listeners: (family) => family,
  connections: 2,
  counts: {
    4: { listenFailures: 1, connections: 5, failures: { "no-answer": 3, "too-many": 2 } },
    6: { listenFailures: 0, connections: 0, failures: { "no-answer": 0, "too-many": 0 } },
  },
};

Deno.test("each mode has only kube-proxy's metrics of that mode", async () => {
  const own = {
    nftables: ["nftables_cleanup_failures_total", "nftables_sync_failures_total"],
    iptables: [
      "iptables_last",
      "iptables_partial_restore_failures_total",
      "iptables_restore_failures_total",
      "iptables_total",
    ],
  };
  for (const mode of ["nftables", "iptables"] as const) {
    const localhost = mode === "nftables" ? LOCALHOST : undefined;
    const { body } = await start({ mode, localhost }).render();
    assertEquals(
      names(body).filter((name) => !name.startsWith("signpost_")),
      [
        ...COMMON,
        ...own[mode].map((name) => `kubeproxy_sync_proxy_rules_${name}`),
        ...BY_MODE[mode],
      ].sort(),
    );
  }
});

Deno.test("listeners on loopback are counted by family", async () => {
  const { body } = await start({ localhost: LOCALHOST }).render();
  for (
    const line of [
      'kubeproxy_nftables_localhost_nodeport_listeners{ip_family="IPv6"} 6',
      'kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total{ip_family="IPv4"} 1',
      'kubeproxy_nftables_localhost_nodeport_rejected_packets_total{ip_family="IPv6",protocol="SCTP"} 0',
      "signpost_localhost_nodeport_connections 2",
      'signpost_localhost_nodeport_connections_total{ip_family="IPv4"} 5',
      'signpost_localhost_nodeport_connection_failures_total{ip_family="IPv4",reason="no-answer"} 3',
    ]
  ) assertStringIncludes(body, `${line}\n`);
});

Deno.test("a sync counts for both families, in all and by its kind", async () => {
  const metrics = start({ sync: () => ({ ...NO_PROGRESS, queued: START, synced: START }) });
  metrics.synced({ kind: "partial", text: "", bytes: 5_000, operations: 0 }, 0.003);
  const { body, contentType } = await metrics.render();
  assertStringIncludes(contentType, "text/plain; version=0.0.4");
  for (const kind of ["", "partial_"]) {
    const name = `kubeproxy_sync_${kind}proxy_rules_duration_seconds`;
    assertEquals(samples(body, `${name}_count`), [
      `${name}_count{ip_family="IPv4"} 1`,
      `${name}_count{ip_family="IPv6"} 1`,
    ]);
    assertEquals(samples(body, `${name}_bucket`).length, 2 * 16);
    assertStringIncludes(body, `${name}_bucket{le="0.004",ip_family="IPv4"} 1`);
    assertStringIncludes(body, `${name}_bucket{le="16.384",ip_family="IPv4"} 1`);
  }
  assertEquals(samples(body, "kubeproxy_sync_full_proxy_rules_duration_seconds_count"), []);
  for (const name of ["last_timestamp", "last_queued_timestamp"]) {
    assertStringIncludes(
      body,
      `kubeproxy_sync_proxy_rules_${name}_seconds{ip_family="IPv6"} 1767323045`,
    );
  }
});

Deno.test("failures are counted from zero, under the name of the mode", async () => {
  const nft = start({ families: [4] });
  const name = "kubeproxy_sync_proxy_rules_nftables_sync_failures_total";
  assertEquals(samples((await nft.render()).body, name), [`${name}{ip_family="IPv4"} 0`]);
  const cleanup = "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total";
  const backend = backendOf("nftables");
  for (const count of [0, 1]) {
    (backend.foreignRules as ProxyTakeOver).failures = count;
    const { body } = await start({ backend: backend.metrics }).render();
    assertEquals(samples(body, cleanup), [
      `${cleanup}{ip_family="IPv4"} ${count}`,
      `${cleanup}{ip_family="IPv6"} ${count}`,
    ]);
  }
  nft.syncFailed("full");
  assertEquals(samples((await nft.render()).body, name), [`${name}{ip_family="IPv4"} 1`]);

  const iptables = start({ mode: "iptables", families: [4] });
  iptables.syncFailed("full");
  iptables.syncFailed("partial");
  const { body } = await iptables.render();
  const prefix = "kubeproxy_sync_proxy_rules_iptables";
  assertStringIncludes(body, `${prefix}_restore_failures_total{ip_family="IPv4"} 2`);
  assertStringIncludes(body, `${prefix}_partial_restore_failures_total{ip_family="IPv4"} 1`);
});

Deno.test("network programming latency has kube-proxy's buckets", async () => {
  const metrics = start({ families: [4] });
  metrics.networkProgrammed(61);
  const name = "kubeproxy_network_programming_duration_seconds_bucket";
  const buckets = samples((await metrics.render()).body, name)
    .map((line) => /le="([^"]+)"/.exec(line)?.[1]);
  assertEquals(buckets.length, 81);
  assertEquals([buckets[0], buckets[1], buckets[60], buckets.at(-2)], ["0.25", "0.5", "59", "300"]);
});

Deno.test("changes, policies, rules, conntrack and health have kube-proxy's labels", async () => {
  const changes = { EndpointSlice: { total: 3, pending: 2 }, Service: { total: 1, pending: 0 } };
  const noLocal = (family: Family) =>
    family === 4 ? { internal: 1, external: 2 } : { internal: 0, external: 0 };
  const metrics = start({
    mode: "iptables",
    observed: { ...NOTHING_SEEN, changes },
    desired: { noLocal, conflictCount: 0 },
  });
  metrics.conntrackReconciled(4, { seconds: 0.1, deleted: 9 });
  metrics.healthAnswered("healthz", 503);
  const { body } = await metrics.render();
  for (
    const line of [
      "kubeproxy_sync_proxy_rules_endpoint_changes_total 3",
      "kubeproxy_sync_proxy_rules_endpoint_changes_pending 2",
      "kubeproxy_sync_proxy_rules_service_changes_total 1",
      'kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 2',
      'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 9',
      'kubeproxy_proxy_healthz_total{code="503"} 1',
    ]
  ) assertStringIncludes(body, `${line}\n`);
});

Deno.test("what only one mode has is read when it is asked for", async () => {
  let packets = 1;
  const elements = new Map([["services4", 3], ["old", 1]]);
  const metrics = start({
    backend: {
      failures: [],
      readings: [{
        type: "gauge",
        definition: ["elements", "Elements"],
        read: () => [...elements].map(([map, value]) => ({ labels: { map }, value })),
      }, {
        type: "counter",
        definition: ["dropped", "Packets"],
        read: () => [{ labels: {}, value: packets++ }],
      }],
    },
  });
  await metrics.render();
  elements.delete("old");
  const { body } = await metrics.render();
  assertStringIncludes(body, "# TYPE dropped counter\ndropped 2\n");
  assertEquals(samples(body, "elements"), ['elements{map="services4"} 3']);
});

Deno.test("each mode counts what the kernel holds of us", async () => {
  const held = async (mode: Mode) => {
    const backend = backendOf(mode);
    const pipeline = new Pipeline({ mode });
    await pipeline.apply(backend.dataplane, [service("web")]);
    const { body } = await start({ backend: backend.metrics }).render();
    return body;
  };
  assertStringIncludes(await held("nftables"), 'signpost_elements{map="cluster-ips4"} 1\n');
  const iptables = await held("iptables");
  for (const name of ["total", "last"]) {
    const line = `kubeproxy_sync_proxy_rules_iptables_${name}{ip_family="IPv6",table="nat"} `;
    assertStringIncludes(iptables, line);
  }
});

Deno.test("requests have client-go's labels and buckets", async () => {
  const metrics = start();
  const request = { verb: "GET", host: "api:6443", duration: 20, size: 0 };
  metrics.requestDone({ ...request, code: "200" });
  metrics.requestDone({ ...request, code: "<error>", retryOf: "503" });
  metrics.requestDone({ ...request, verb: "POST", code: "201", size: 300 });
  metrics.responseRead({ verb: "GET", host: "api:6443", size: 20_000_000 });
  const { body } = await metrics.render();
  assertEquals(samples(body, "rest_client_requests_total"), [
    'rest_client_requests_total{code="200",host="api:6443",method="GET"} 1',
    'rest_client_requests_total{code="<error>",host="api:6443",method="GET"} 1',
    'rest_client_requests_total{code="201",host="api:6443",method="POST"} 1',
  ]);
  assertEquals(samples(body, "rest_client_request_retries_total"), [
    'rest_client_request_retries_total{code="503",host="api:6443",verb="GET"} 1',
  ]);
  assertEquals(samples(body, "rest_client_request_duration_seconds_count"), [
    'rest_client_request_duration_seconds_count{host="api:6443",verb="GET"} 2',
    'rest_client_request_duration_seconds_count{host="api:6443",verb="POST"} 1',
  ]);
  const buckets = (name: string, verb: string) =>
    samples(body, `${name}_bucket`).filter((line) => line.includes(`verb="${verb}"`))
      .map((line) => line.replace(/^.*le="([^"]+)".* (\d+)$/, "$1 $2"));
  assertEquals(buckets("rest_client_request_size_bytes", "POST"), [
    ...["64 0", "256 0", "512 1", "1024 1", "4096 1", "16384 1", "65536 1", "262144 1"],
    ...["1048576 1", "4194304 1", "16777216 1", "+Inf 1"],
  ]);
  assertEquals(buckets("rest_client_response_size_bytes", "GET").slice(-2), [
    "16777216 0",
    "+Inf 1",
  ]);
});

Deno.test("the build is a metric as of Kubernetes' own components", async () => {
  const { body } = await start().render();
  for (
    const line of [
      `kubernetes_build_info{major="1",minor="37",git_version="v1.37.2+signpost.${VERSION}",git_commit="${COMMIT}",git_tree_state="",build_date="",go_version="",compiler="deno",platform="linux/arm64"} 1`,
      'kubernetes_feature_enabled{name="AllowServiceExternalIPs",stage=""} 0',
      'kubernetes_feature_enabled{name="MultiCIDRServiceAllocator",stage=""} 1',
      "nodejs_heap_size_total_bytes 30",
      "nodejs_heap_size_used_bytes 20",
      "nodejs_external_memory_bytes 10",
    ]
  ) assertStringIncludes(body, `${line}\n`);
});

Deno.test("the build begins with the API server's version, once that is known", async () => {
  const { body } = await start({ observed: { ...NOTHING_SEEN, serverVersion: "1.33.4" } }).render();
  const labels = `major="1",minor="33",git_version="v1.33.4+signpost.${VERSION}"`;
  assertStringIncludes(body, `kubernetes_build_info{${labels},`);
});

Deno.test("signpost's own metrics tell of drift, watches, refusals and conflicts", async () => {
  const metrics = start({
    refused: () => [{ kind: "EndpointSlice" }],
    observed: { ...NOTHING_SEEN, driftRepairs: 1, watches: WATCHES },
    desired: { ...NO_WORK.desired, conflictCount: 2 },
  });
  metrics.synced({ kind: "full", text: "", bytes: 5_000, operations: 0 }, 1);
  metrics.refusals.inc({ kind: "EndpointSlice" });
  metrics.droppedEvents.inc({});
  metrics.programFailures.inc({ program: "conntrack", reason: "timeout" });
  const { body } = await metrics.render();
  for (
    const line of [
      `signpost_build_info{version="${VERSION}",commit="${COMMIT}"} 1`,
      "signpost_drift_repairs_total 1",
      'signpost_program_failures_total{program="conntrack",reason="timeout"} 1',
      'signpost_transaction_bytes_sum{kind="full"} 5000',
      'signpost_watch_connected{kind="Service"} 1',
      'signpost_watch_last_activity_timestamp_seconds{kind="Service"} 1767323045',
      'signpost_watch_relists_total{kind="Service"} 1',
      'signpost_objects_refused_total{kind="EndpointSlice"} 1',
      'signpost_objects_refused{kind="EndpointSlice"} 1',
      "signpost_vip_conflicts 2",
      "signpost_events_dropped_total 1",
      "signpost_snapshot_age_seconds 7",
      "signpost_state_stale 0",
      "process_resident_memory_bytes 1024",
      "process_cpu_seconds_total 2.5",
      "process_start_time_seconds 100",
    ]
  ) assertStringIncludes(body, `${line}\n`);
});

Deno.test("there is no age without a state file", async () => {
  let age: number | undefined = 1;
  const metrics = start({ snapshotAge: () => age });
  assertEquals(samples((await metrics.render()).body, "signpost_snapshot_age_seconds").length, 1);
  age = undefined;
  const { body } = await metrics.render();
  assertEquals(samples(body, "signpost_snapshot_age_seconds"), []);
  assertEquals(samples(body, "process_cpu_seconds_total"), ["process_cpu_seconds_total 2.5"]);
});

Deno.test("two sets of metrics in one process do not meet", async () => {
  const [one, other] = [start(), start()];
  one.droppedEvents.inc({});
  assertStringIncludes((await other.render()).body, "signpost_events_dropped_total 0\n");
});

Deno.test({
  name: "readings of this process need no permission",
  permissions: "none",
  fn: () => {
    const usage = processUsage();
    const { rss, heapTotal, heapUsed } = usage.memory();
    assert(rss > 1_000_000);
    assert(usage.cpu() > 0);
    assert(heapTotal >= heapUsed && heapUsed > 100_000);
    assertMatch(usage.platform, /^linux\/(?:amd64|arm64)$/);
    assert(usage.started > 1_600_000_000);
  },
});

async function* inTurn<T>(batches: readonly T[]): AsyncGenerator<T> {
  for (const batch of batches) {
    yield batch;
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
}

Deno.test("connections are counted by service port and kind of frontend", async () => {
  const web = connectionsTo({ frontend: "nodePort", connections: 7, perSecond: 3 });
  const rejected = { ...web, reason: "no-endpoints" } as const;
  const batches = [[web], [{ ...web, service: "db" }, rejected, { ...web, service: "dns" }], []];
  for (const mode of ["nftables", "iptables"] as const) {
    const { body } = await start({ mode, connections: () => inTurn(batches) }).render();
    const name = "signpost_service_connections_total";
    const labels = (service: string) =>
      `namespace="shop",service="${service}",port="80",protocol="tcp",frontend="nodePort"`;
    const expected = ["web", "db", "dns"].map((service) => `${name}{${labels(service)}} 7`);
    assertEquals(samples(body, name), expected);
    assertEquals(body.match(new RegExp(`^# (?:HELP|TYPE) ${name}`, "gm"))?.length, 2, "told once");
    const none = await start({ mode, connections: () => inTurn([]) }).render();
    assertMatch(none.body, new RegExp(`\n\n# HELP ${name} .*\n# TYPE ${name} counter\n\n`));
    const refused = "signpost_rejected_connections_total";
    assertEquals(samples(body, refused), [`${refused}{${labels("web")},reason="no-endpoints"} 7`]);
    assertMatch(body, new RegExp(`^# HELP ${name} .* every second, and every 20 times`, "m"));
  }
  assertEquals((await start().render()).body.includes("signpost_service_connections_total"), false);
});

Deno.test("each kind of node finding has a number, zero where there is none", async () => {
  const found = finding("node-unknown", { what: "", where: "Node a" });
  const { body } = await start({ findings: () => [found] }).render();
  const lines = samples(body, "signpost_node_findings");
  assertEquals(lines.length, Object.keys(CATALOG).length);
  const numberOf = (id: string) =>
    lines.find((line) => line.includes(`id="${id}",severity="warning"`))?.split(" ").at(-1);
  assertEquals([numberOf("node-unknown"), numberOf("node-address-elsewhere")], ["1", "0"]);
});
