/**
 * Times one tenant's changes while another tenant's large Services are added, and then deleted.
 *
 *     deno task soak neighbours [ELEMENTS]
 *
 * @module
 */
import { ADDRESSES, type Manifest, PORT, service, slice } from "./cluster.ts";
import { Stage } from "./stage.ts";

const a = ADDRESSES[4];
/** Endpoints of a slice, as the API server allows. */
const SLICE = 1_000;
/** Elements of a Service, and of a namespace: half of the limits. */
const SERVICE = 50_000;
const NAMESPACE = 250_000;
/** Milliseconds. */
const CHANGE = 50;
const BETWEEN_OBJECTS = 10;
const POLL = 500;

/** Milliseconds from a change of one endpoint until connections reach the new one. */
export interface NeighbourReport {
  readonly alone: readonly number[];
  readonly added: readonly number[];
  readonly deleted: readonly number[];
}

/** Adds and deletes so many elements of other tenants. */
export async function soakNeighbours(elements: number): Promise<NeighbourReport> {
  await using stage = await Stage.create({ objects: [service(a), slice(a, ["local1"])] });
  await using _signpost = await stage.startSynced();
  const objects = [...costlyObjects(elements)];
  let round = 0;
  const during = async (work: () => Promise<void>) => {
    const times: number[] = [];
    let isOver = false;
    const worked = work().finally(() => isOver = true);
    while (!isOver) {
      times.push(await change(stage, round++));
      await sleep(CHANGE);
    }
    await worked;
    return times;
  };
  const until = async (holds: (elements: number) => boolean) => {
    while (!holds(await stage.metric('signpost_elements{map="endpoints-tcp4"}'))) await sleep(POLL);
  };
  return {
    alone: await during(() => sleep(5_000)),
    added: await during(async () => {
      for (const object of objects) {
        stage.apply(object);
        await sleep(BETWEEN_OBJECTS);
      }
      await until((held) => held > elements);
    }),
    deleted: await during(async () => {
      const { store } = stage.api;
      for (const kind of ["Service", "EndpointSlice"]) {
        for (const key of store.keys(kind)) if (!key.startsWith("shop/")) store.delete(kind, key);
      }
      await until((held) => held < SLICE);
    }),
  };
}

/** Returns large Services with one port and one address each. */
function* costlyObjects(elements: number): Generator<Manifest> {
  for (let first = 0; first < elements; first += SERVICE) {
    const namespace = `other-${Math.floor(first / NAMESPACE)}`;
    const name = `large-${first}`;
    const metadata = { namespace, name, uid: crypto.randomUUID() };
    const ports = [{ name: "http", protocol: "TCP", port: PORT }];
    const clusterIP = address(a.clusterIP2, first / SERVICE);
    yield {
      apiVersion: "v1",
      kind: "Service",
      metadata,
      spec: { type: "ClusterIP", clusterIP, clusterIPs: [clusterIP], ports },
    };
    for (let i = first; i < Math.min(first + SERVICE, elements); i += SLICE) {
      yield {
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          namespace,
          name: `${name}-${i}`,
          labels: { "kubernetes.io/service-name": name },
        },
        addressType: "IPv4",
        ports: [{ name: "http", protocol: "TCP", port: PORT }],
        endpoints: Array.from({ length: Math.min(SLICE, elements - i) }, (_, j) => ({
          addresses: [address("10.200.0.0", i + j)],
          nodeName: "node2",
          conditions: { ready: true },
        })),
      };
    }
  }
}

function address(first: string, more: number): string {
  const [b0 = 0, b1 = 0, b2 = 0, b3 = 0] = first.split(".").map(Number);
  const value = ((b0 << 24) | (b1 << 16) | (b2 << 8) | b3) + more;
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join(".");
}

/** Moves the Service to its other endpoint. @returns milliseconds until connections follow */
async function change(stage: Stage, round: number): Promise<number> {
  const host = round % 2 === 0 ? "local2" : "local1";
  const began = performance.now();
  stage.apply(slice(a, [host]));
  const request = { from: "pod", address: a.clusterIP, port: PORT, times: 1 };
  for (;;) {
    const [outcome] = await stage.network.connect(request);
    if (outcome?.type === "answer" && outcome.answer.host === host) break;
  }
  return performance.now() - began;
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Formats the report for people. */
export function formatNeighbourReport(report: NeighbourReport): string {
  return Object.entries(report).map(([phase, times]: [string, readonly number[]]) => {
    const sorted = times.toSorted((x, y) => x - y);
    const at = (share: number) => Math.round(sorted[Math.floor(share * (sorted.length - 1))] ?? 0);
    return `${phase}: ${times.length} changes, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, the slowest ${
      at(1)
    } ms\n`;
  }).join("");
}
