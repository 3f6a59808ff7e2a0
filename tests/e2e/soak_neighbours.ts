/**
 * Times one tenant's changes while another tenant's large Services are added, and then deleted.
 *
 *     deno task soak neighbours [ELEMENTS]
 */
import { ADDRESSES, type Manifest, PORT, service, slice } from "./cluster.ts";
import { addressToInteger, integerToAddress } from "../../lib/model/values/address.ts";
import { formatTimes, moveEndpoint, removeOthers, sleep } from "./soak_tenants.ts";
import { Stage, syncs } from "./stage.ts";
import { service as buildService, slice as buildSlice } from "../support/cluster.ts";

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
interface NeighbourTimes {
  readonly alone: readonly number[];
  readonly added: readonly number[];
  readonly deleted: readonly number[];
}

/** The times, and the daemon's full syncs. */
export interface NeighbourReport extends NeighbourTimes {
  /** The first one included. Changes wait for each. */
  readonly fullSyncs: number;
}

/** Adds and deletes so many elements of other tenants. */
export async function soakNeighbours(elements: number): Promise<NeighbourReport> {
  await using stage = await Stage.create({ objects: [service(a), slice(a, ["local1"])] });
  await using signpost = await stage.startSynced();
  const objects = [...costlyObjects(elements)];
  let round = 0;
  const during = async (work: () => Promise<void>) => {
    const times: number[] = [];
    let isOver = false;
    const worked = work().finally(() => isOver = true);
    while (!isOver) {
      times.push(await moveEndpoint(stage, round++));
      await sleep(CHANGE);
    }
    await worked;
    return times;
  };
  const until = async (holds: (elements: number) => boolean) => {
    while (!holds(await stage.metric('signpost_elements{map="endpoints-tcp4"}'))) await sleep(POLL);
  };
  const times = {
    alone: await during(() => sleep(5_000)),
    added: await during(async () => {
      for (const object of objects) {
        stage.apply(object);
        await sleep(BETWEEN_OBJECTS);
      }
      await until((held) => held > elements);
    }),
    deleted: await during(async () => {
      await removeOthers(stage, BETWEEN_OBJECTS);
      await until((held) => held < SLICE);
    }),
  };
  return { ...times, fullSyncs: syncs(signpost, "full") };
}

/** Returns large Services with one port and one address each. */
function* costlyObjects(elements: number): Generator<Manifest> {
  for (let first = 0; first < elements; first += SERVICE) {
    const namespace = `other-${Math.floor(first / NAMESPACE)}`;
    const name = `large-${first}`;
    const metadata = { uid: crypto.randomUUID() };
    const ports = [{ name: "http", protocol: "TCP", port: PORT }];
    yield buildService({
      namespace,
      name,
      metadata,
      clusterIP: address(a.clusterIP2, first / SERVICE),
      ports,
    });
    for (let i = first; i < Math.min(first + SERVICE, elements); i += SLICE) {
      yield buildSlice({
        namespace,
        service: name,
        name: `${name}-${i}`,
        ports,
        endpoints: Array.from(
          { length: Math.min(SLICE, elements - i) },
          (_, j) => `${address("10.200.0.0", i + j)}@node2`,
        ),
      });
    }
  }
}

function address(first: string, more: number): string {
  return integerToAddress(4, addressToInteger(first) + BigInt(more));
}

/** Formats the report for people. */
export function formatNeighbourReport({ fullSyncs, ...phases }: NeighbourReport): string {
  const lines = Object.entries(phases).map(([phase, times]) => `${phase}: ${formatTimes(times)}`);
  return [...lines, `full syncs: ${fullSyncs}`].map((line) => `${line}\n`).join("");
}
