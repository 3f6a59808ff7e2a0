/**
 * From a change of an endpoint at the API until the kernel has it, and the work that it makes.
 *
 * @module
 */
import type { ApiObject } from "../../tests/support/api_store.ts";
import { endpointSlice, initialAddresses, newAddress } from "../cluster.ts";
import { Commits } from "../commits.ts";
import type { Daemon } from "../daemon.ts";
import type { Stage, StageOptions } from "../stage.ts";
import { median, quantile } from "../statistics.ts";

/** The results of changes at one pace. */
export interface Changes {
  readonly count: number;
  /** Milliseconds from the change until the kernel has committed it. */
  readonly p50: number;
  readonly p99: number;
  /** Medians of the first and the last fifth: where a queue builds up, the last are slower. */
  readonly firstFifth: number;
  readonly lastFifth: number;
  /** Changes that were not in the kernel one second after the last one was made. */
  readonly pending: number;
  /** Medians of the element operations and of the bytes of script for each change. */
  readonly operationsPerChange: number;
  readonly bytesPerChange: number;
}

/** Changes endpoints, one after the other, each of a service of its own choosing. */
export class Churn {
  #serial = 0;

  /** @param cluster how big the cluster is */
  constructor(private readonly cluster: StageOptions) {}

  /** A slice in which one endpoint of some service has a new address. */
  next(): { readonly address: string; readonly slice: ApiObject } {
    const { services, endpoints } = this.cluster;
    const serial = this.#serial++;
    const service = (serial * STRIDE) % services;
    const addresses = initialAddresses(service, endpoints);
    const address = newAddress(serial);
    addresses[serial % endpoints] = address;
    return { address, slice: endpointSlice(service, addresses) };
  }
}

/** A prime, so that all services have their turn. */
const STRIDE = 7919;

/** Makes changes at a steady pace and watches them arrive. */
export async function measureChanges(
  stage: Stage,
  options: {
    readonly daemon: Daemon;
    readonly churn: Churn;
    readonly perSecond: number;
    readonly count: number;
  },
): Promise<Changes> {
  const { daemon, churn, perSecond, count } = options;
  await using commits = new Commits(stage);
  const latencies: number[] = [];
  const firstLine = daemon.lines.length;
  const begin = performance.now();
  for (let i = 0; i < count; i++) {
    await sleepUntil(begin + (i * 1000) / perSecond);
    const start = performance.now();
    const { address, slice } = churn.next();
    commits.seen(address).then((time) => latencies[i] = time - start);
    await stage.api.put(slice);
  }
  await sleepUntil(performance.now() + 1000);
  const pending = commits.pending;
  const syncs = daemon.lines.slice(firstLine).filter(({ msg }) => msg === "synced");
  const fifth = Math.ceil(count / 5);
  const seen = Object.values(latencies);
  const total = (field: string) => syncs.reduce((sum, line) => sum + Number(line[field]), 0);
  return {
    count,
    p50: quantile(seen, 0.5),
    p99: quantile(seen, 0.99),
    firstFifth: median(latencies.slice(0, fifth)),
    lastFifth: median(latencies.slice(-fifth)),
    pending,
    operationsPerChange: total("operations") / count,
    bytesPerChange: total("bytes") / count,
  };
}

/** Sleeps until `performance.now()` is there. */
export async function sleepUntil(time: number): Promise<void> {
  const left = time - performance.now();
  if (left > 0) await new Promise((resolve) => setTimeout(resolve, left));
}
