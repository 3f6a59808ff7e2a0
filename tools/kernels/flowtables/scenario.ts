/**
 * The fast path in a machine: what takes it, what it saves, and what ends with an endpoint.
 *
 * @module
 */
import { NFTABLES_MODULES } from "../../../lib/backend/nftables/probe.ts";
import { FAMILIES, type Family } from "../../../lib/model/values/address.ts";
import {
  createCluster,
  type InputFiles,
  writeInput,
  writeManifests,
} from "../../../tests/e2e/case.ts";
import {
  ADDRESSES,
  type Addresses,
  clusterObjects,
  configuration,
  type Manifest,
  NODE_PORT,
  service,
  slice,
} from "../../../tests/e2e/cluster.ts";
import { median } from "../../../bench/statistics.ts";
import { run } from "../../../tests/support/command.ts";
import type { Network } from "../../../tests/support/network.ts";
import { httpGet } from "../../../tests/support/http.ts";
import { runSignpost, Signpost } from "../../../tests/support/signpost.ts";
import { NODE } from "../../../tests/support/topology.ts";
import { say } from "../../terminal.ts";
import type { Findings } from "../ipvs/findings.ts";

/** Gives the program that makes traffic. */
export interface FlowtableOptions {
  /** The path of `traffic.py`. */
  readonly traffic: string;
}

/** The ports of `traffic.py`. */
const SINK = 7001;
const ANSWER = 7002;
const ECHO = 7003;
/** Milliseconds. A machine by emulation is slow. */
const DEADLINE = 600_000;
/** Milliseconds between two looks: the machine has one processor, which the daemon needs, too. */
const PAUSE = 1_000;
const MEBIBYTES = { large: 256, small: 32 } as const;
/** Short connections of one turn. A round has two turns with the fast path between two without it. */
const SHORT = 500;
const ROUNDS = 5;
const METRICS_PORT = 10249;
const LIST_TABLE = ["nft", "list", "table", "inet", "signpost"];
const PORTS = [
  { name: "sink", protocol: "TCP", port: SINK },
  { name: "answer", protocol: "TCP", port: ANSWER },
  { name: "echo", protocol: "UDP", port: ECHO },
] as const;

/** Runs all of it. */
export async function tryFlowtables(
  { traffic }: FlowtableOptions,
  findings: Findings,
): Promise<void> {
  // In a slow machine, nft would wait for them longer than its time limit.
  await run(["modprobe", "-a", ...NFTABLES_MODULES, "nft_flow_offload", "nf_flow_table_inet"]);
  await using resources = new AsyncDisposableStack();
  const network = resources.use(await createCluster());
  const input = resources.use(await writeInput({ objects: objects(["local1"]), config: {} }));
  for (const host of ["local1", "local2"]) {
    const server = start(network, host, ["python3", traffic, "serve"]);
    resources.defer(() => server.stop());
    await server.line();
  }
  const stage: Stage = { network, input, traffic, findings };
  await inspect(stage);
  await measure(stage);
  await runSignpost(network, ["cleanup"]);
  const left = await network.run(NODE, ["nft", "list", "flowtables"]);
  if (left.trim() !== "") findings.problem(`left after cleanup: ${left}`);
}

/** Holds what each part of the scenario needs. */
interface Stage extends FlowtableOptions {
  readonly network: Network;
  readonly input: InputFiles;
  readonly findings: Findings;
}

/** Returns a Service for each family, with an endpoint on each of the hosts. */
function objects(hosts: readonly ("local1" | "local2")[], scheduler = "random"): Manifest[] {
  return [
    ...clusterObjects(ADDRESSES[4]),
    ...FAMILIES.flatMap((family) => {
      const a = ADDRESSES[family];
      const name = `web${family}`;
      const ports = PORTS.map((each, i) => ({ ...each, nodePort: NODE_PORT + i }));
      const web = service(a, { name, spec: { type: "NodePort", ports } });
      const annotations = { "signpost.dev/scheduler": scheduler };
      return [
        { ...web, metadata: { ...web.metadata as Manifest, annotations } },
        slice(a, hosts, { service: name, ports: [...PORTS] }),
      ];
    }),
  ];
}

async function startDaemon(stage: Stage, isAccelerated: boolean): Promise<Signpost> {
  const { network, input } = stage;
  const acceleration = isAccelerated ? { interfaces: ["pod", "local*", "client"] } : undefined;
  const changes = {
    nftables: { minSyncPeriod: "50ms", syncPeriod: "10s" },
    signpost: { ...acceleration && { acceleration } },
  };
  await Deno.writeTextFile(input.config, JSON.stringify(configuration(ADDRESSES[4], changes)));
  await network.run(NODE, ["sysctl", "-qw", "net.netfilter.nf_conntrack_acct=0"]);
  const args = ["--config", input.config, "--manifests", input.manifests, "--state-file="];
  const daemon = Signpost.start(network, [...args, "--socket=", "-v2"]);
  await until(daemon, "the first sync", () => /\bfull\b/.test(daemon.log));
  if (isAccelerated) await until(daemon, "devices", () => hasDevice(network, "local1"));
  await network.flushConntrack();
  return daemon;
}

/** Waits for a condition. */
function until<T>(daemon: Signpost, what: string, condition: () => T | Promise<T>) {
  const look = async () => {
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
    return await condition();
  };
  return daemon.until<T>(what, look, DEADLINE);
}

async function hasEndpoint(network: Network, address: string): Promise<boolean> {
  return (await network.run(NODE, LIST_TABLE)).includes(` ${address} `);
}

async function hasDevice(network: Network, name: string): Promise<boolean> {
  return new RegExp(`devices = .*\\b${name}\\b`).test(
    await network.run(NODE, ["nft", "list", "flowtables"]),
  );
}

/** Lists what conntrack has of a protocol and family. */
function tracked(network: Network, protocol: string, family: Family): Promise<string> {
  return network.run(NODE, ["conntrack", "-L", "-p", protocol, "-f", `ipv${family}`]);
}

async function offloaded(network: Network, protocol: string, family: Family): Promise<string[]> {
  const text = await tracked(network, protocol, family);
  return text.split("\n").filter((line) => line.includes("[OFFLOAD]"));
}

/** Connections take the fast path, and end or live as without it. */
async function inspect(stage: Stage): Promise<void> {
  const { network, findings, input } = stage;
  await using daemon = await startDaemon(stage, true);
  for (const family of FAMILIES) {
    const a = ADDRESSES[family];
    for (const { from, to, what } of pathsOf(a)) {
      await using udp = stay(stage, { from, address: to, port: portOf(to, a, ECHO), kind: "udp" });
      await using tcp = stay(stage, { from, address: to, port: portOf(to, a, SINK), kind: "tcp" });
      for (const [protocol, connection] of [["udp", udp], ["tcp", tcp]] as const) {
        const answered = await connection.packets(60);
        const [entry] = await offloaded(network, protocol, family);
        if (answered !== 60) findings.problem(`${what} ${protocol}: ${answered} of 60 packets`);
        if (entry === undefined) findings.problem(`${what} ${protocol} is not offloaded`);
        else findings.fact(`${what} ${protocol}: ${entry.trim()}`);
      }
      await writeManifests(input.manifests, objects(["local1", "local2"], "round-robin"));
      await until(
        daemon,
        "the other scheduler",
        async () => /dnat .*numgen inc mod 2/.test(await network.run(NODE, LIST_TABLE)),
      );
      for (const [protocol, connection] of [["udp", udp], ["tcp", tcp]] as const) {
        const answered = await connection.packets(60);
        const [entry = ""] = await offloaded(network, protocol, family);
        if (answered !== 60 || !entry.includes(`src=${a.local1} `)) {
          findings.problem(`${what} ${protocol}, other scheduler: ${answered} of 60, ${entry}`);
        }
      }
      findings.fact(`${what}: both live on with another scheduler`);
      await writeManifests(input.manifests, objects(["local2"]));
      // The rules first: in a slow machine, an entry may expire before they change.
      await until(
        daemon,
        "the endpoint is gone",
        async () => !await hasEndpoint(network, a.local1),
      );
      await until(
        daemon,
        "the UDP flow is gone",
        async () => !(await tracked(network, "udp", family)).includes(`src=${a.local1} `),
      );
      const moved = await udp.packets(60);
      const target = (await offloaded(network, "udp", family))[0] ?? "";
      const lives = await tcp.packets(60);
      const stays = (await offloaded(network, "tcp", family))[0] ?? "";
      findings.fact(
        `${what}, endpoint removed: UDP ${moved} of 60 to the new endpoint, TCP ${lives} of 60`,
      );
      if (moved < 59 || !target.includes(`src=${a.local2} `)) {
        findings.problem(`${what}: UDP stays on an endpoint that went: ${target}`);
      }
      if (lives !== 60 || !stays.includes(`src=${a.local1} `)) {
        findings.problem(`${what}: TCP does not live on: ${stays}`);
      }
      await writeManifests(input.manifests, clusterObjects(ADDRESSES[4]));
      await until(daemon, "the Service is gone", async () => !await hasEndpoint(network, a.local2));
      await until(
        daemon,
        "the UDP flow of the deleted Service is gone",
        async () => !(await tracked(network, "udp", family)).includes(`src=${a.local2} `),
      );
      const left = await tcp.packets(60);
      findings.fact(`${what}, Service deleted: UDP ended, TCP ${left} of 60`);
      if (left !== 60) findings.problem(`${what}: TCP does not outlive its Service`);
      await writeManifests(input.manifests, objects(["local1"]));
      await until(daemon, "the Service is back", () => hasEndpoint(network, a.local1));
      await network.flushConntrack();
    }
  }
  await exclude(stage);
  await count(stage, daemon);
  const drift = daemon.log.split("\n").filter((line) => /drift|another program/.test(line));
  findings.problem(...drift);
  await interfaces(stage, daemon);
  await ask(stage);
}

/** Tries if the metric counts a connection. */
async function count(stage: Stage, daemon: Signpost): Promise<void> {
  const { network, findings } = stage;
  const address = ADDRESSES[4].clusterIP;
  const where = { from: NODE, source: "127.0.0.1", address: "127.0.0.1", port: METRICS_PORT };
  await using udp = stay(stage, { from: "pod", address, port: ECHO, kind: "udp" });
  await udp.packets(60);
  const said = await until(daemon, "the metric", async () => {
    // Without packets, the flow would leave the fast path before the daemon counts.
    await udp.packets(1);
    const { body } = await httpGet(network, { ...where, path: "/metrics" });
    return /^signpost_accelerated_connections [1-9]\d*$/m.exec(body)?.[0];
  });
  findings.fact(`the metric: ${said}`);
}

/** Tries if a connection from an interface that no pattern names keeps the usual path. */
async function exclude(stage: Stage): Promise<void> {
  const { network, findings } = stage;
  const a = ADDRESSES[4];
  const port = portOf(a.node, a, ECHO);
  await using udp = stay(stage, { from: "client2", address: a.node, port, kind: "udp" });
  const answered = await udp.packets(60);
  const taken = (await offloaded(network, "udp", 4)).length;
  findings.fact(`from another interface: ${answered} of 60 packets, ${taken} flows offloaded`);
  if (answered !== 60 || taken > 0) findings.problem("another interface takes the fast path");
}

/** Tries if `verify` and `explain` know the fast path. */
async function ask({ network, input, findings }: Stage): Promise<void> {
  const a = ADDRESSES[4];
  const args = ["--config", input.config, "--manifests", input.manifests];
  const verified = await runSignpost(network, ["verify", ...args]);
  if (verified.code !== 0) findings.problem(`verify: ${verified.stdout}${verified.stderr}`);
  const packet = [a.pod, "to", `${a.clusterIP}:${SINK}`];
  const { stdout } = await runSignpost(network, ["explain", ...packet, ...args]);
  const said = stdout.split("\n").find((each) => each.includes("fast path after 20 packets"));
  if (said === undefined) findings.problem(`explain: ${stdout}`);
  else findings.fact(`explain: ${said.trim()}`);
}

/** Interfaces come and go without a failed sync. */
async function interfaces({ network, findings }: Stage, daemon: Signpost): Promise<void> {
  await network.run(NODE, [
    "ip",
    "link",
    "add",
    "local-late",
    "type",
    "veth",
    "peer",
    "name",
    "late",
  ]);
  await until(daemon, "a late interface", () => hasDevice(network, "local-late"));
  await network.run(NODE, ["ip", "link", "del", "local-late"]);
  await until(daemon, "it is gone", async () => !await hasDevice(network, "local-late"));
  await network.applyNft(`flush chain inet signpost accelerate
delete flowtable inet signpost fast-path
`);
  await until(
    daemon,
    "the repair",
    async () => (await network.run(NODE, LIST_TABLE)).includes("flow add"),
  );
  await until(daemon, "devices again", () => hasDevice(network, "local1"));
  await until(daemon, "a word of the repair", () => /another program/.test(daemon.log));
  const failed = daemon.log.split("\n").filter((line) => /ERROR|sync failed/.test(line));
  if (failed.length > 0) findings.problem(...failed);
  else findings.fact("interfaces came and went, the flowtable was repaired, and no sync failed");
}

function pathsOf(a: Addresses) {
  return [
    { what: `IPv${a.family} pod → Service → pod`, from: "pod", to: a.clusterIP },
    { what: `IPv${a.family} outside → node port → pod`, from: "client", to: a.node },
  ] as const;
}

function portOf(to: string, a: Addresses, port: number): number {
  return to === a.node ? NODE_PORT + PORTS.findIndex((each) => each.port === port) : port;
}

/** One figure with and without the fast path. */
interface Used {
  on: number;
  off: number;
}

/** Compares processor time with and without the fast path. */
async function measure(stage: Stage): Promise<void> {
  const { network, traffic, findings } = stage;
  const a = ADDRESSES[4];
  const paths = [...pathsOf(a), { what: "IPv4 node → pod", from: NODE, to: a.local1 }];
  const rules = { off: await rulesOf(stage, false), on: await rulesOf(stage, true) };
  const seconds = new Map<string, Used>();
  for (const side of ["on", "off"] as const) {
    await load(stage, rules[side]);
    for (const size of ["large", "small"] as const) {
      await setSegments(network, size);
      for (const { what, from, to } of paths) {
        const mebibytes = MEBIBYTES[size];
        const argv = ["send", to, `${portOf(to, a, SINK)}`, `${mebibytes}`];
        const before = await busySeconds();
        const answer = await network.run(from, ["python3", traffic, ...argv]);
        const used = (await busySeconds() - before) * 1024 / mebibytes;
        if (Number(answer) !== mebibytes * 2 ** 20) findings.problem(`${what}: ${answer.trim()}`);
        const row = `${what}, ${size} packets`;
        seconds.set(row, { on: 0, off: 0, ...seconds.get(row), [side]: used });
        say(`${side}: ${row}: ${used.toFixed(2)} s`);
      }
    }
  }
  findings.fact(
    "| processor time, seconds for each GB | without | with | saved |",
    "|---|---|---|---|",
    ...[...seconds].map(([what, { on, off }]) =>
      `| ${what} | ${off.toFixed(1)} | ${on.toFixed(1)} | ${saved({ on, off })} |`
    ),
  );
  await measureShort(stage, rules);
}

/** Returns the rules that the daemon writes. It ends: in a slow machine, its looks at the kernel would count. */
async function rulesOf(stage: Stage, isAccelerated: boolean): Promise<string> {
  const daemon = await startDaemon(stage, isAccelerated);
  await daemon.stop();
  return await stage.network.run(NODE, LIST_TABLE);
}

async function load({ network }: Stage, rules: string): Promise<void> {
  // `ct packets` in the rules turns it on again.
  await network.run(NODE, ["sysctl", "-qw", "net.netfilter.nf_conntrack_acct=0"]);
  await network.applyNft(`delete table inet signpost\n${rules}`);
  await network.flushConntrack();
}

/** Compares the processor time of short connections in rounds: without, with, with, without. */
async function measureShort(
  stage: Stage,
  rules: Readonly<Record<keyof Used, string>>,
): Promise<void> {
  const { network, traffic, findings } = stage;
  const argv = ["python3", traffic, "short", ADDRESSES[4].clusterIP, `${ANSWER}`, `${SHORT}`];
  const micros: Readonly<Record<keyof Used, number[]>> = { on: [], off: [] };
  for (let round = 0; round < ROUNDS; round++) {
    for (const side of ["off", "on", "on", "off"] as const) {
      await load(stage, rules[side]);
      const [answered, each] = (await network.run("pod", argv)).split(" ").map(Number);
      if (answered !== SHORT) findings.problem(`${answered} of ${SHORT} short connections`);
      micros[side].push(each ?? NaN);
    }
  }
  const [on, off] = [median(micros.on), median(micros.off)];
  const words = (all: readonly number[]) =>
    `${median(all).toFixed(1)} µs (${Math.min(...all)} to ${Math.max(...all)})`;
  findings.fact(
    `a short connection, median of ${2 * ROUNDS} times ${SHORT}: without ${words(micros.off)}, ` +
      `with ${words(micros.on)}, saved ${saved({ on, off })}`,
  );
}

function saved({ on, off }: Used): string {
  return `${(100 * (1 - on / off)).toFixed(1)} %`;
}

/** Sets the size of packets. Large: the kernel hands up to 64 KB on as one packet. Small: as on the wire. */
async function setSegments(network: Network, size: "large" | "small"): Promise<void> {
  const most = size === "large" ? "65535" : "1";
  for (const host of ["pod", "client", "local1"]) {
    await network.run(host, ["ip", "link", "set", "eth0", "gso_max_segs", most]);
  }
  await network.run(NODE, ["ip", "link", "set", "local1", "gso_max_segs", most]);
}

/** Seconds that processors were busy since the start; see proc_stat(5). */
async function busySeconds(): Promise<number> {
  const [line = ""] = (await Deno.readTextFile("/proc/stat")).split("\n");
  const [, user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = line.split(/ +/).map(Number);
  return (user + nice + system + irq + softirq) / 100;
}

interface Running extends AsyncDisposable {
  line(): Promise<string>;
  write(text: string): Promise<void>;
  stop(): Promise<void>;
}

function start(network: Network, host: string, argv: readonly string[]): Running {
  const child = new Deno.Command("ip", {
    args: ["netns", "exec", network.namespaceOf(host), ...argv],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const input = child.stdin.getWriter();
  const stop = async () => {
    child.kill("SIGKILL");
    await child.status;
    await lines.cancel();
    await input.abort().catch(() => {});
  };
  return {
    line: async () => (await lines.read()).value?.trim() ?? "",
    write: (text) => input.write(new TextEncoder().encode(text)),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

interface Connection extends AsyncDisposable {
  /** Sends packets. @returns how many were taken, of UDP: answered */
  packets(count: number): Promise<number>;
}

function stay({ network, traffic }: Stage, options: {
  readonly from: string;
  readonly address: string;
  readonly port: number;
  readonly kind: "tcp" | "udp";
}): Connection {
  const { from, address, port, kind } = options;
  const running = start(network, from, ["python3", traffic, "stay", address, `${port}`, kind]);
  return {
    packets: async (count) => {
      await running.write(`${count}\n`);
      return Number(await running.line());
    },
    [Symbol.asyncDispose]: () => running.stop(),
  };
}
