import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { readExplainTarget } from "../../lib/config/command.ts";
import type { Unanswered } from "../../lib/daemon/reports/explanation.ts";
import type { PortFacts } from "../../lib/daemon/objects/own_ports.ts";
import { type Answer, answer } from "../../lib/explain/answer.ts";
import type { ServiceReport } from "../../lib/explain/report.ts";
import { ProgramFailedError } from "../../lib/model/ports/ports.ts";
import type { Runtime } from "../../lib/model/ports/runtime.ts";
import type { ServiceStatus } from "../../lib/model/status.ts";
import { apiServerPort } from "../../lib/policy/claims.ts";
import type { StateObjects } from "../../lib/source/saved/format.ts";
import { serveSocket } from "../../lib/system/socket.ts";
import { stateText, writeStateFile } from "../../lib/system/state_file.ts";
import { CLUSTER, LOCAL, REMOTE, slice, web, worldOf } from "../explain/cluster.ts";
import { STATUS } from "../observe/page/contents.ts";
import { realClock } from "../support/clock_and_log.ts";
import { eventually } from "../support/eventually.ts";
import { NOW, runLine, withManifest, world } from "./runtime.ts";

const RIVAL = web({ clusterIP: "10.96.0.11", externalIPs: ["198.51.100.1"] }, {
  metadata: { namespace: "shop", name: "old", creationTimestamp: "2020-01-01T00:00:00Z" },
});
const WEB = worldOf([...CLUSTER, web(), slice([LOCAL, REMOTE]), RIVAL]);
const { cache } = WEB.state;
const SERVICE: ServiceStatus = {
  service: "shop/web",
  state: "pending",
  since: "2026-01-02T03:00:00.000Z",
  sync: { number: 7, kind: "partial" },
  reason: "the next sync writes it",
};

/** Answers as the daemon does, 12 seconds after its last contact with the API server. */
async function explained(question: string): Promise<Answer | Unanswered> {
  const target = readExplainTarget([question], { namespace: "", from: "" });
  if (typeof target === "string") throw new Error(target);
  return await answer(target, {
    known: {
      ...WEB.world,
      ...WEB.state,
      nodeName: "node-1",
      origin: { from: "daemon", asOf: new Date(NOW - 12_000).toISOString() },
      externalIPsAllowed: true,
      nodeFindings: [],
    },
    from: "pod",
    inspect: () => Promise.resolve(WEB.inspected),
    locate: ({ namespace, name }) =>
      Promise.resolve(
        namespace === "gone"
          ? undefined
          : name === "web-1"
          ? ["fd00:10:244::11", "10.244.0.11"].map((address) => ({ address }))
          : [],
      ),
    historyOf: () => [],
    statusOf: () => Promise.resolve(SERVICE),
  }).catch((error) => ({ explainVersion: 1, problem: error.message }));
}

/** A node whose API server is away, with a daemon, or the state file of one that has ended. */
async function onNode(
  words: readonly string[],
  {
    daemon = true,
    isEmpty = false,
    args = ["--master=http://127.0.0.1:9"],
    age = 12,
    hasFile = false,
    ownPorts = null,
    runtime: changes = {},
    signal = new AbortController().signal,
  }: {
    readonly daemon?: boolean;
    /** The daemon has no objects yet. */
    readonly isEmpty?: boolean;
    /** How the daemon names its source. */
    readonly args?: readonly string[];
    readonly age?: number;
    readonly hasFile?: boolean;
    /** The ports that the daemon keeps for itself. */
    readonly ownPorts?: PortFacts | null;
    readonly runtime?: Partial<Runtime>;
    readonly signal?: AbortSignal;
  } = {},
) {
  const folder = await Deno.makeTempDir({ prefix: "signpost-objects-" });
  const [socket, stateFile] = [`${folder}/s.sock`, `${folder}/state.json.gz`];
  const header = { nodeName: "node-1", written: NOW - age * 1000 };
  const pause = () => Promise.resolve();
  const text = (all: StateObjects) => stateText(all, { ...header, pause });
  const stop = new AbortController();
  const argv = ["--proxy-mode=nftables", "--state-file", stateFile, ...args];
  const asked: string[] = [];
  const runtime: Partial<Runtime> = {
    runner: { run: () => Promise.resolve({ code: 1, stdout: "", stderr: "not permitted" }) },
    addresses: () => [],
    readFile: (path) =>
      path === "/etc/signpost/config.yaml"
        ? Promise.resolve(
          "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n" +
            `mode: nftables\nclientConnection: {kubeconfig: ${folder}/kubeconfig}\n`,
        )
        : Deno.readTextFile(path),
    ...changes,
  };
  await using resources = new AsyncDisposableStack();
  resources.defer(() => Deno.remove(folder, { recursive: true }));
  await Deno.writeTextFile(
    `${folder}/kubeconfig`,
    "apiVersion: v1\nkind: Config\ncurrent-context: c\n" +
      "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n" +
      "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n",
  );
  if (hasFile) await writeStateFile(cache, { ...header, path: stateFile, pause });
  if (daemon) {
    const done = serveSocket({
      path: socket,
      routes: {
        "GET /v1/status": () => STATUS,
        "GET /v1/objects": () => isEmpty ? undefined : ReadableStream.from(text(cache)),
        "GET /v1/explain": (query) => {
          asked.push(`${query}`);
          return isEmpty ? undefined : explained(query.get("question") ?? "");
        },
        "GET /v1/command-line": () => ({ argv, workingDirectory: "/", file: null }),
        "GET /v1/inputs": () => ({ ownPorts, heldBack: [] }),
      },
      clock: realClock,
      logger: world().logger,
      signal: stop.signal,
    });
    resources.defer(async () => {
      stop.abort();
      await done;
    });
    await eventually("the socket", () => Deno.stat(socket).catch(() => undefined));
  }
  const flags = ["--socket", socket, "--hostname-override=node-1", `--state-file=${stateFile}`];
  const { code, printed, complaints } = await runLine([...words, ...flags], runtime, signal);
  return { code, printed: printed.join(""), complaints: complaints.join("\n"), asked };
}

const EXPLAIN = ["explain", "shop/web", "-o", "json"];

Deno.test("explain prints the daemon's answer with the kernel's part", async () => {
  const { printed, complaints, asked } = await onNode(EXPLAIN);
  const { objects, status, ports, findings, kernel }: ServiceReport = JSON.parse(printed);
  assertEquals(objects, { from: "daemon", asOf: new Date(NOW - 12_000).toISOString() });
  assertEquals(status, SERVICE);
  assertEquals(ports[0]?.endpoints.length, 2);
  assertEquals(findings.map(({ code }) => code), ["pending", "kernel-unread"]);
  assertEquals(kernel.reason, "nft failed; nft said: not permitted");
  assertMatch(complaints, /the daemon's objects are as of 12s ago \(2026-01-02T03:03:53\.000Z\)/);
  assertEquals(asked, ["question=shop%2Fweb&namespace=&from="]);
});

for (
  const [words, question] of [
    ["svc/web:http", "svc%2Fweb%3Ahttp"],
    ["web -n shop", "web"],
    ["10.244.0.9 to 10.96.0.10:80", "10.244.0.9+to+10.96.0.10%3A80"],
    ["--from=pod to [fd00::a]:53/udp", "to+%5Bfd00%3A%3Aa%5D%3A53%2Fudp"],
  ] as const
) {
  Deno.test(`explain ${words} asks the daemon one question`, async () => {
    const { asked } = await onNode(["explain", ...words.split(" "), "-o", "json"]);
    assertEquals(asked.map((each) => each.split(/[=&]/)[1]), [question]);
  });
}

Deno.test("a pod that is an endpoint may send a packet by its name", async () => {
  for (const pod of ["web-1", "shop/web-1", "pod/web-1"]) {
    const { printed } = await onNode(["explain", pod, "to", "shop/web:80", "-o", "json"]);
    assertEquals(JSON.parse(printed).packet.source, "10.244.0.11");
  }
});

Deno.test("a pod whose address is not known needs its address", async () => {
  const reasons = {
    "cli to shop/web:80":
      "shop/cli is not known, because it is not an endpoint of a Service, and " +
      "signpost does not read other pods: give its IP address, see kubectl get pod -n shop cli -o wide",
    "cli to 10.96.0.10:80":
      "default/cli is not known, because it is not an endpoint of a Service, " +
      "and signpost does not read other pods: give its IP address, see kubectl get pod -n default cli",
    "gone/web-1 to shop/web:80":
      "gone/web-1 is not known, because the EndpointSlices were not read",
  };
  for (const [question, reason] of Object.entries(reasons)) {
    const { code, complaints } = await onNode(["explain", question]);
    assertEquals(code, 2);
    assertStringIncludes(complaints, `the address of the pod ${reason}`);
  }
});

Deno.test("a question that the daemon cannot answer is one line", async () => {
  const { code, complaints } = await onNode(["explain", "none"]);
  assertEquals(code, 2);
  assertMatch(complaints, /: no Service none has a virtual IP in any namespace/);
});

Deno.test("the state file is used after the timeout if no daemon has objects", async () => {
  for (const daemon of [false, true]) {
    const { printed, complaints } = await onNode([...EXPLAIN, "--timeout=3s"], {
      daemon,
      isEmpty: true,
      age: 120,
      hasFile: true,
    });
    const { objects, ports }: ServiceReport = JSON.parse(printed);
    assertEquals(objects.from, "state-file");
    assertEquals(ports.length, 1);
    assertMatch(complaints, /has not delivered the full state within 3 s/);
    assertMatch(complaints, /the objects come from the state file, as of 2m ago/);
  }
});

Deno.test("the timeout ends explain without a daemon or a state file", async () => {
  const { code, complaints } = await onNode(EXPLAIN, { daemon: false });
  assertEquals(code, 2);
  assertMatch(complaints, /has not delivered the full state within 10 s/);
});

for (const source of ["an API server", "manifests"]) {
  Deno.test(`diff lays manifests over the objects of a daemon that has them from ${source}`, async () => {
    const endpoints = { apiVersion: "discovery.k8s.io/v1", ...slice([LOCAL]) };
    const options = source === "manifests" ? { args: ["--manifests=m"] } : {};
    const { code, against, present, changes } = await diffWith(endpoints, options);
    assertEquals([code, against, present.from], [1, "api", "daemon"]);
    assertEquals(changes.length > 0, true);
  });
}

Deno.test("diff knows an address of the API server that only the daemon has seen", async () => {
  const sockets = [{ protocol: "udp", address: "0.0.0.0", port: 53 }] as const;
  const ownPorts = { ports: [apiServerPort("198.51.100.6", 6443)], sockets };
  const proposal = {
    apiVersion: "v1",
    ...web({ externalIPs: ["198.51.100.6"], ports: [{ name: "http", port: 6443 }] }),
  };
  const { warnings } = await diffWith(proposal, { ownPorts });
  assertMatch(warnings.join("\n"), /198\.51\.100\.6:6443\/tcp.* the API server/);
});

/** Makes a diff of one object beside a daemon. */
async function diffWith(object: object, options: Parameters<typeof onNode>[1]) {
  return await withManifest([object], async (manifest) => {
    const words = ["diff", "--manifests", manifest, "-o", "json"];
    const { code, printed } = await onNode(words, options);
    return { code, ...JSON.parse(printed) };
  });
}

Deno.test("objects that a daemon reads from its standard input are not read again", async () => {
  const args = ["--manifests=-"];
  const { printed } = await onNode(EXPLAIN, { args });
  assertEquals(JSON.parse(printed).objects.from, "daemon");
  const { code, complaints } = await onNode(EXPLAIN, { args, isEmpty: true });
  assertEquals(code, 2);
  assertMatch(complaints, /has no objects yet, and reads them from its standard input/);
});

Deno.test("observe goes on if a signal ends the program that lists lost events", async () => {
  let listings = 0;
  const run = ([program]: readonly string[]) => {
    if (program === "cat" && ++listings > 1) {
      return Promise.reject(new ProgramFailedError("cat", "signal", "was ended by SIGINT"));
    }
    return Promise.resolve({ code: 0, stdout: "", stderr: "" });
  };
  const sleep = () => new Promise<void>((resolve) => setTimeout(resolve, 1));
  const { code, complaints } = await onNode(["observe", "shop/web"], {
    runtime: {
      runner: { run },
      clock: { now: () => NOW, monotonic: () => 0, sleep },
      streamer: {
        async *lines([program]) {
          if (program !== "conntrack") return;
          yield "";
        },
      },
    },
  });
  assertEquals([code, listings], [2, 2]);
  assertStringIncludes(complaints, "conntrack -E has ended: run signpost as root");
});

Deno.test("Ctrl-C ends observe without an error if it ends conntrack first", async () => {
  const interrupt = new AbortController();
  const { code, complaints } = await onNode(["observe", "shop/web"], {
    signal: interrupt.signal,
    runtime: {
      runner: { run: () => Promise.resolve({ code: 0, stdout: "", stderr: "" }) },
      clock: realClock,
      streamer: {
        async *lines([program]) {
          if (program === "conntrack") setTimeout(() => interrupt.abort(), 5);
          yield* [];
        },
      },
    },
  });
  assertEquals(code, 0);
  assertEquals(complaints.includes("has ended"), false);
});
