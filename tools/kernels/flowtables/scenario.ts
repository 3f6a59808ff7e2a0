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
import { run } from "../../../tests/support/command.ts";
import type { Network } from "../../../tests/support/network.ts";
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
const DEADLINE = 300_000;
const MEBIBYTES = { large: 256, small: 32 } as const;
const SHORT = 10_000;
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

/** One Service for each family with an endpoint on each of some hosts. */
function objects(hosts: readonly ("local1" | "local2")[]): Manifest[] {
  return [
    ...clusterObjects(ADDRESSES[4]),
    ...FAMILIES.flatMap((family) => {
      const a = ADDRESSES[family];
      const name = `web${family}`;
      const ports = PORTS.map((each, i) => ({ ...each, nodePort: NODE_PORT + i }));
      return [
        service(a, { name, spec: { type: "NodePort", ports } }),
        slice(a, hosts, { service: name, ports: [...PORTS] }),
      ];
    }),
  ];
}

async function startDaemon(stage: Stage, isAccelerated: boolean): Promise<Signpost> {
  const { network, input } = stage;
  const acceleration = isAccelerated ? { interfaces: ["pod", "local*", "client"] } : undefined;
  const changes = {
    nftables: { minSyncPeriod: "50ms", syncPeriod: "1s" },
    signpost: { ...acceleration && { acceleration } },
  };
  await Deno.writeTextFile(input.config, JSON.stringify(configuration(ADDRESSES[4], changes)));
  await network.run(NODE, ["sysctl", "-qw", "net.netfilter.nf_conntrack_acct=0"]);
  const args = ["--config", input.config, "--manifests", input.manifests, "--state-file="];
  const daemon = Signpost.start(network, [...args, "--socket=", "-v2"]);
  await daemon.until("the first sync", () => /\bfull\b/.test(daemon.log), DEADLINE);
  if (isAccelerated) await daemon.until("devices", () => hasDevice(network, "local1"), DEADLINE);
  await network.flushConntrack();
  return daemon;
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
      await writeManifests(input.manifests, objects(["local2"]));
      await daemon.until(
        "the UDP flow is gone",
        async () => !(await tracked(network, "udp", family)).includes(`src=${a.local1} `),
        DEADLINE,
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
      await daemon.until(
        "the UDP flow of the deleted Service is gone",
        async () => !(await tracked(network, "udp", family)).includes(`src=${a.local2} `),
        DEADLINE,
      );
      const left = await tcp.packets(60);
      findings.fact(`${what}, Service deleted: UDP ended, TCP ${left} of 60`);
      if (left !== 60) findings.problem(`${what}: TCP does not outlive its Service`);
      await writeManifests(input.manifests, objects(["local1"]));
      const table = ["nft", "list", "table", "inet", "signpost"];
      await daemon.until(
        "the Service is back",
        async () => (await network.run(NODE, table)).includes(` ${a.local1} `),
        DEADLINE,
      );
      await network.flushConntrack();
    }
  }
  await exclude(stage);
  const drift = daemon.log.split("\n").filter((line) => /drift|another program/.test(line));
  findings.problem(...drift);
  await interfaces(stage, daemon);
  await ask(stage);
}

/** A connection from an interface that no pattern names keeps the usual path. */
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

/** `verify` and `explain` know the fast path. */
async function ask({ network, input, findings }: Stage): Promise<void> {
  const a = ADDRESSES[4];
  const args = ["--config", input.config, "--manifests", input.manifests];
  const verified = await runSignpost(network, ["verify", ...args]);
  if (verified.code !== 0) findings.problem(`verify: ${verified.stdout}${verified.stderr}`);
  const packet = [a.pod, "to", `${a.clusterIP}:${SINK}`];
  const { stdout } = await runSignpost(network, ["explain", ...packet, ...args]);
  const said = stdout.split("\n").find((each) => each.includes("fast path"));
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
  await daemon.until("a late interface", () => hasDevice(network, "local-late"), DEADLINE);
  await network.run(NODE, ["ip", "link", "del", "local-late"]);
  await daemon.until("it is gone", async () => !await hasDevice(network, "local-late"), DEADLINE);
  await network.run(NODE, ["nft", "flush", "chain", "inet", "signpost", "accelerate"]);
  await daemon.until(
    "the repair",
    async () =>
      (await network.run(NODE, ["nft", "list", "chain", "inet", "signpost", "accelerate"]))
        .includes("flow add"),
    DEADLINE,
  );
  await daemon.until("a word of the repair", () => /another program/.test(daemon.log), DEADLINE);
  const failed = daemon.log.split("\n").filter((line) => /ERROR|sync failed/.test(line));
  if (failed.length > 0) findings.problem(...failed);
  else findings.fact("interfaces came and went without a failed sync, and a chain was repaired");
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

/** Seconds of processor time, with and without the fast path. */
interface Used {
  on: number;
  off: number;
}

/** Compares processor time with and without the fast path. */
async function measure(stage: Stage): Promise<void> {
  const { network, traffic, findings } = stage;
  const a = ADDRESSES[4];
  const paths = [...pathsOf(a), { what: "IPv4 node → pod", from: NODE, to: a.local1 }];
  const seconds = new Map<string, Used>();
  for (const on of [true, false]) {
    const daemon = await startDaemon(stage, on);
    // The rules stay. In a slow machine, its looks at the kernel would count as much as connections.
    await daemon.stop();
    const take = async (what: string, argv: readonly string[], options: {
      readonly from: string;
      readonly expected: number;
      readonly scale: number;
    }) => {
      const before = await busySeconds();
      const answer = await network.run(options.from, ["python3", traffic, ...argv]);
      const used = (await busySeconds() - before) * options.scale;
      if (Number(answer) !== options.expected) findings.problem(`${what}: ${answer.trim()}`);
      seconds.set(what, { on: 0, off: 0, ...seconds.get(what), [on ? "on" : "off"]: used });
      say(`${on ? "with" : "without"}: ${what}: ${used.toFixed(2)} s`);
    };
    for (const size of ["large", "small"] as const) {
      await setSegments(network, size);
      for (const { what, from, to } of paths) {
        const mebibytes = MEBIBYTES[size];
        const argv = ["send", to, `${portOf(to, a, SINK)}`, `${mebibytes}`];
        await take(`${what}, ${size} packets`, argv, {
          from,
          expected: mebibytes * 2 ** 20,
          scale: 1024 / mebibytes,
        });
      }
    }
    const argv = ["short", a.clusterIP, `${ANSWER}`, `${SHORT}`];
    await take(`${SHORT} short connections, in all`, argv, {
      from: "pod",
      expected: SHORT,
      scale: 1,
    });
  }
  findings.fact(
    "| processor time, seconds for each GB | without | with | saved |",
    "|---|---|---|---|",
    ...[...seconds].map(([what, { on, off }]) =>
      `| ${what} | ${off.toFixed(1)} | ${on.toFixed(1)} | ${Math.round(100 * (1 - on / off))} % |`
    ),
  );
}

/** Large: the kernel hands up to 64 KB on as one packet. Small: each packet is one of the wire. */
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
