import { assertEquals } from "@std/assert";
import { FAMILIES } from "../../lib/model/values/address.ts";
import type { Network } from "../support/network.ts";
import { randomNumbers } from "../support/random.ts";
import {
  ADDRESSES,
  type Addresses,
  ENDPOINT_HOSTS,
  type EndpointHost,
  type Host,
  type Manifest,
  NODE_PORT,
  PORT,
  service,
  slice,
  slicePorts,
  TARGET_PORT,
} from "./cluster.ts";
import type { Flow } from "./flow.ts";
import { both, bothFlows, Stage, syncs } from "./stage.ts";
import { SteadyClient } from "./steady.ts";

/** So long, at least: on a busy machine until each client has made its connections. */
const SECONDS = Number(Deno.env.get("NO_LOSS_SECONDS") ?? 10);
/** Changes of the endpoint set a second; each should be a transaction of its own. */
const CHANGES = 20;
const PERIODS = { minSyncPeriod: "10ms", syncPeriod: "30s" };
/** Milliseconds that an endpoint serves on after it has left the set. */
const GRACE = 3_000;

/** One slice for each, so that sets have up to twelve endpoints. */
const TARGET_PORTS = [7000, 7001, 7002] as const;

for (const mode of ["nftables", "iptables"] as const) {
  const config = { mode, nftables: PERIODS, iptables: PERIODS };

  Deno.test(`no new connection fails while endpoints and Services change (${mode})`, async () => {
    await using stage = await Stage.create({ objects: both((a) => [web(a)]), config });
    using endpoints = new ChangingEndpoints(stage);
    await losesNothing(stage, {
      flows: endpoints.flows(),
      clients: (a) => [
        { from: "pod", address: a.clusterIP, port: PORT },
        { from: "pod", address: a.node, port: NODE_PORT + a.family },
      ],
      rate: 800,
      change: (number) => {
        endpoints.change();
        toggleOther(stage, number % 40);
      },
    });
  });

  Deno.test(`no new connection fails while Services change their fields (${mode})`, async () => {
    const random = randomNumbers(2);
    const one = <T>(...all: readonly [T, ...T[]]): T => all[random(all.length)] ?? all[0];
    const change = (a: Addresses) => {
      const name = `web${a.family}`;
      const hosts = ENDPOINT_HOSTS.filter((host) => host === "local1" || one(true, false));
      return [
        web(a, {
          annotations: one<Manifest>({}, ...SCHEDULERS),
          internalTrafficPolicy: one("Cluster", "Local"),
          externalTrafficPolicy: one("Cluster", "Local"),
          sessionAffinity: one("None", "None", "ClientIP"),
        }),
        ...one([], [slice(a, hosts, { service: name, name: `${name}-0` })]),
      ];
    };
    const slices = both((a) => {
      const service = `web${a.family}`;
      return [slice(a, ENDPOINT_HOSTS, { service, name: `${service}-0` })];
    });
    await using stage = await Stage.create({
      objects: [...both((a) => [web(a)]), ...slices],
      config,
    });
    await losesNothing(stage, {
      flows: bothFlows((a) => [{
        from: "pod",
        to: a.clusterIP,
        reaches: ENDPOINT_HOSTS,
        protocols: ["tcp"],
      }]),
      clients: (a) => [
        { from: "pod", address: a.clusterIP, port: PORT },
        { from: "pod", address: a.node, port: NODE_PORT + a.family },
        { from: "client", address: a.node, port: NODE_PORT + a.family },
      ],
      rate: 300,
      change: () => stage.apply(...both(change)),
    });
  });
}

const SCHEDULERS = ["random", "round-robin", "consistent-hash"].map((name) => ({
  "signpost.dev/scheduler": name,
}));

/** `shop/web4` or `web6`, with a node port of its own. */
function web(
  a: Addresses,
  { annotations = {}, ...spec }: Manifest & { readonly annotations?: Manifest } = {},
): Manifest {
  const made = service(a, {
    name: `web${a.family}`,
    spec: { type: "NodePort", ports: [tcpPort(NODE_PORT + a.family)], ...spec },
  });
  return { ...made, metadata: { ...made.metadata as Manifest, annotations } };
}

/** Connects at a steady rate while something changes: each connection is answered, by its first segment. */
async function losesNothing(stage: Stage, { flows, clients, rate, change }: {
  /** The expected outcomes at the start. */
  readonly flows: readonly Flow[];
  readonly clients: (a: Addresses) => readonly { from: Host; address: string; port: number }[];
  /** New connections a second, of all clients. */
  readonly rate: number;
  readonly change: (number: number) => void;
}): Promise<void> {
  await using signpost = await stage.startSynced();
  await stage.flowsBecome(signpost, flows);

  const requests = FAMILIES.flatMap((family) => clients(ADDRESSES[family]));
  const each = rate / requests.length;
  const steady = requests.map((request) => new SteadyClient(stage.network, request, each));
  const before = retransmittedSyns(stage.network);
  const changes = await churn(change, () => steady.some(({ opened }) => opened < each * SECONDS));
  const counts = await Promise.all(steady.map((client) => client.stop()));
  const retransmitted = retransmittedSyns(stage.network) - before;
  const total = counts.reduce((sum, count) => sum + count, 0);
  print(
    `${total} connections, ${changes} changes, ` +
      `${syncs(signpost, "partial")} partial and ${syncs(signpost, "full")} full syncs, ` +
      `no connection failed, ${retransmitted} SYN segments were sent again`,
  );
  assertEquals(syncs(signpost, "full"), 1);
  assertEquals(retransmitted, 0);
}

/** Changes something while there is need. @returns how often */
async function churn(change: (number: number) => void, goesOn: () => boolean): Promise<number> {
  const start = performance.now();
  const elapsed = () => (performance.now() - start) / 1000;
  let changes = 0;
  while (goesOn()) {
    while (changes < elapsed() * CHANGES) change(changes++);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return changes;
}

/** Adds another Service, or deletes it where it is there; half of them have a node port. */
function toggleOther(stage: Stage, number: number): void {
  const name = `other-${number}`;
  if (stage.api.store.delete("Service", `shop/${name}`)) {
    stage.api.store.delete("EndpointSlice", `shop/${name}-1`);
    return;
  }
  const nodePort = number % 2 === 0 && { type: "NodePort", ports: [tcpPort(31_000 + number)] };
  const spec = { clusterIP: `10.96.1.${number}`, ...nodePort };
  stage.apply(
    service(ADDRESSES[4], { name, spec }),
    slice(ADDRESSES[4], ENDPOINT_HOSTS, { service: name }),
  );
}

function tcpPort(nodePort: number) {
  return { name: "tcp", protocol: "TCP", port: PORT, targetPort: TARGET_PORT, nodePort };
}

/** Endpoints of `shop/web4` and `web6`; each serves before it is in the set, and for a while after. */
class ChangingEndpoints implements Disposable {
  readonly #stage: Stage;
  readonly #servers = new Map<string, Server>();
  readonly #random = randomNumbers(1);
  #first: readonly EndpointHost[] = [];

  constructor(stage: Stage) {
    this.#stage = stage;
    this.change();
  }

  /** Returns the expected outcomes, as long as nothing has changed since the start. */
  flows(): Flow[] {
    return bothFlows((a) => [{
      from: "pod",
      to: a.clusterIP,
      reaches: this.#first,
      targetPort: TARGET_PORTS[0],
      protocols: ["tcp"],
    }]);
  }

  /** Gives one of the slices other endpoints; the first one is never without. */
  change(): void {
    const index = this.#first.length === 0 ? 0 : this.#random(TARGET_PORTS.length);
    const port = TARGET_PORTS[index] ?? 0;
    const chosen = ENDPOINT_HOSTS.filter(() => this.#random(2) === 0);
    const hosts = chosen.length === 0 && index === 0 ? ENDPOINT_HOSTS.slice(0, 1) : chosen;
    if (index === 0) this.#first = hosts;
    for (const host of ENDPOINT_HOSTS) {
      if (hosts.includes(host)) this.#open(host, port);
      else this.#closeLater(host, port);
    }
    this.#stage.apply(...both((a) => {
      const service = `web${a.family}`;
      return [slice(a, hosts, { service, name: `${service}-${index}`, ports: slicePorts(port) })];
    }));
  }

  [Symbol.dispose](): void {
    for (const { timer } of this.#servers.values()) clearTimeout(timer);
  }

  #open(host: EndpointHost, port: number): void {
    const key = `${host} ${port}`;
    const open = this.#servers.get(key);
    clearTimeout(open?.timer);
    const close = open?.close ?? this.#stage.network.serve(host, { protocol: "tcp", port });
    this.#servers.set(key, { close });
  }

  #closeLater(host: EndpointHost, port: number): void {
    const key = `${host} ${port}`;
    const open = this.#servers.get(key);
    if (open === undefined || open.timer !== undefined) return;
    const timer = setTimeout(() => {
      open.close();
      this.#servers.delete(key);
    }, GRACE);
    this.#servers.set(key, { close: open.close, timer });
  }
}

interface Server {
  readonly close: () => void;
  /** Runs where the endpoint has left the set. */
  readonly timer?: ReturnType<typeof setTimeout>;
}

/**
 * How many SYN segments the clients' kernels have sent again: a connection that was saved by the second
 * try of TCP counts as none that failed, but tells of a gap all the same.
 */
function retransmittedSyns(network: Network): number {
  return ["pod", "client"].reduce((sum, host) => sum + retransmittedBy(network, host), 0);
}

function retransmittedBy(network: Network, host: string): number {
  const text = network.inside(host, () => Deno.readTextFileSync("/proc/thread-self/net/netstat"));
  const [names = [], values = []] = text.split("\n").filter((line) => line.startsWith("TcpExt:"))
    .map((line) => line.split(" "));
  return Number(values[names.indexOf("TCPSynRetrans")]);
}

function print(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}
