import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { KernelFacts } from "../../../lib/explain/kernel.ts";
import { renderPacket, renderService } from "../../../lib/cli/explain/render.ts";
import { painter } from "../../../lib/cli/output.ts";
import { FINDING } from "../../observe/page/contents.ts";
import { assertGolden } from "../golden.ts";
import {
  endpoint,
  explainFrom,
  explainWeb,
  loadBalancer,
  LOCAL,
  NODE_ADDRESS,
  OLD,
  REMOTE,
  slice,
  web,
} from "../../explain/cluster.ts";
import { NODE_NAME } from "../../support/pipeline.ts";

const plain = { paint: painter(false), isVerbose: false };

/** A kernel that holds one entry and lacks another, with a client that stays on an endpoint. */
const KERNEL: KernelFacts = {
  state: "different",
  reason: "",
  kubeProxy: [],
  entries: [
    {
      in: "services4",
      key: "192.0.2.10 . tcp . 80",
      desired: "goto external4-tcp-1",
      held: "",
      state: "missing",
    },
    { in: "cluster-ips4", key: "10.96.0.10", desired: "", held: "", state: "same" },
  ],
  stickyClients: [{
    servicePort: "shop/web:http",
    client: "203.0.113.9",
    address: "10.244.0.11",
    port: 8080,
    expiresSeconds: 1234,
  }],
};

Deno.test("a broken Service is a page: causes, addresses, endpoints, kernel, clients", async () => {
  const report = explainWeb([
    loadBalancer({
      externalTrafficPolicy: "Local",
      loadBalancerSourceRanges: ["203.0.113.0/24"],
      sessionAffinity: "ClientIP",
      externalIPs: ["192.0.2.30"],
    }),
    slice([LOCAL, REMOTE, endpoint("10.244.1.12", "node-2", { conditions: { ready: false } })]),
    OLD,
  ], { kernel: KERNEL });
  await assertGolden("explain-service.txt", renderService(report, plain));
  await assertGolden("explain-service.json", `${JSON.stringify(report, undefined, 2)}\n`);
});

Deno.test("correct entries of the kernel are shown if asked for", () => {
  const report = explainWeb([web(), slice([LOCAL])], { kernel: KERNEL });
  const isShown = (isVerbose: boolean) =>
    renderService(report, { ...plain, isVerbose }).includes("  same     cluster-ips4");
  assertEquals([isShown(false), isShown(true)], [false, true]);
});

Deno.test("a Service that works is a page, too, with its last changes", async () => {
  const history = Array.from({ length: 6 }, (_, index) => ({
    at: `2026-01-02T03:04:0${6 - index}.000Z`,
    service: "shop/web",
    what: `endpoint 10.244.1.1${index}:8080 added`,
    milliseconds: index === 1 ? null : 12,
  }));
  const report = { ...explainWeb([web(), slice([LOCAL, REMOTE])]), history };
  const all = renderService(report, { ...plain, hasHistory: true });
  assertEquals([all.includes("10.244.1.15"), all.includes("--history")], [true, false]);
  await assertGolden("explain-service-works.txt", renderService(report, plain));
});

Deno.test("a packet is a few lines", async () => {
  const objects = [web(), slice([LOCAL, REMOTE])];
  const delivered = explainFrom({ source: "10.244.0.11" }, objects, { kernel: KERNEL });
  await assertGolden("explain-packet.txt", renderPacket(delivered, plain));
  await assertGolden("explain-packet.json", `${JSON.stringify(delivered, undefined, 2)}\n`);
});

Deno.test("a packet without rules in the kernel is not said to be delivered", () => {
  const kernel = { state: "empty" } as const;
  const head = (objects: Parameters<typeof explainFrom>[1]) =>
    renderPacket(explainFrom({ source: "10.244.0.11" }, objects, { kernel }), plain).split("\n")[0];
  const packet = "Packet from 10.244.0.11 to 10.96.0.10:80/tcp";
  const but = "but the kernel has no rules of signpost";
  assertEquals(head([web(), slice([LOCAL])]), `${packet} should be delivered, ${but}`);
  assertEquals(head([web(), slice([])]), `${packet} should be rejected, ${but}`);
});

/** A firewall that drops what Services send to endpoints. */
function firewall(where: string, drops = ["external forward"]) {
  return { ...FINDING, id: "firewall-drops-services", where, services: [], drops };
}

Deno.test("a packet from outside that a host firewall drops is not said to be delivered", () => {
  const nodeFindings = [firewall("chain inet hostfw forward")];
  const report = explainFrom({ from: "external" }, [web(), slice([LOCAL])], { nodeFindings });
  assertEquals(
    report.summary,
    "should be delivered, but table inet hostfw drops it (chain forward)",
  );
  const senders = ["external"] as const;
  assertEquals(report.droppedBy, { table: "inet hostfw", chain: "forward", senders });
  assertEquals(report.findings.map(({ severity, code }) => `${severity} ${code}`), [
    "error firewall-drops-services",
    "note kernel-unread",
  ]);
  const [head] = renderPacket(report, { ...plain, paint: painter(true) }).split("\n");
  assertStringIncludes(head ?? "", `\x1b[31m${report.summary}`);
});

Deno.test("a host firewall that does not see the packet does not drop it", () => {
  const summaryOf = (
    { from = "external", where = "chain inet hostfw forward", endpoints = [LOCAL] }: {
      readonly from?: "external" | "pod";
      readonly where?: string;
      readonly endpoints?: Parameters<typeof slice>[0];
    },
  ) =>
    explainFrom({ from }, [web(), slice(endpoints)], { nodeFindings: [firewall(where)] }).summary;
  assertEquals(summaryOf({ from: "pod" }), "is delivered");
  assertEquals(summaryOf({ where: "chain ip6 hostfw forward" }), "is delivered");
  assertEquals(summaryOf({ endpoints: [endpoint(NODE_ADDRESS, NODE_NAME)] }), "is delivered");
  assertEquals(summaryOf({ endpoints: [] }), "is rejected");
});

Deno.test("a packet to an endpoint on this node meets firewalls of the input hook alone", () => {
  const objects = [web(), slice([endpoint(NODE_ADDRESS, NODE_NAME)])];
  const summaryOf = (drops: readonly string[], services: readonly string[]) => {
    const nodeFindings = [{ ...firewall("chain ip filter INPUT", [...drops]), services }];
    return explainFrom({ from: "pod" }, objects, { nodeFindings }).summary;
  };
  const dropped = "should be delivered, but table ip filter drops it (chain INPUT)";
  assertEquals(summaryOf(["external input", "pod input"], []), dropped);
  assertEquals(summaryOf(["pod input"], ["shop/web"]), dropped);
  assertEquals(summaryOf(["pod input"], ["shop/other"]), "is delivered");
  assertEquals(summaryOf(["external input", "pod forward"], []), "is delivered");
});

Deno.test("a packet that a firewall may drop is not said to be delivered", () => {
  const may = { ...firewall("chain inet hostfw forward"), id: "firewall-may-drop" };
  const nodeFindings = [{ ...may, severity: "info" as const }];
  const report = explainFrom({ from: "external" }, [web(), slice([LOCAL])], { nodeFindings });
  assertEquals(
    [report.summary, report.droppedBy?.mayPass],
    ["should be delivered, but table inet hostfw may drop it (chain forward)", true],
  );
  assertEquals(report.findings.map(({ severity, code }) => `${severity} ${code}`), [
    "note firewall-may-drop",
    "note kernel-unread",
  ]);
});

Deno.test("a Service that a host firewall keeps pods from is broken", () => {
  const nodeFindings = [firewall("chain ip filter FORWARD", ["pod forward", "node forward"])];
  const report = explainWeb([loadBalancer(), slice([LOCAL])], { nodeFindings });
  assertEquals([report.verdict, report.summary], ["broken", FINDING.what]);
  const text = renderService(report, plain);
  assertStringIncludes(text, "is broken here");
  assertMatch(text, /dropped: ip filter +dropped: ip filter +1 endpoint/);
});

Deno.test("a Service whose clients a host firewall drops is not said to work for them", () => {
  const nodeFindings = [firewall("chain iptables-legacy filter FORWARD")];
  const report = explainWeb([loadBalancer(), slice([LOCAL])], { nodeFindings });
  assertEquals(
    report.summary,
    "shop/web works here, but not from outside (table iptables-legacy filter, chain FORWARD)",
  );
  const text = renderService(report, plain);
  assertStringIncludes(text, "Service shop/web works here, but not from outside (");
  assertEquals(text.match(/dropped: iptables-legacy filter/g)?.length, 3);
  const inside = explainWeb([web(), slice([LOCAL])], { nodeFindings });
  assertEquals(inside.summary, "shop/web works here");
});

Deno.test("colours go around the text and change nothing else", () => {
  const report = explainWeb([web(), slice([])]);
  const coloured = renderService(report, { ...plain, paint: painter(true) });
  assertStringIncludes(coloured, "\x1b[31mis broken here\x1b[0m");
  assertEquals(coloured.replace(/\p{Cc}\[\d+m/gu, ""), renderService(report, plain));
});
