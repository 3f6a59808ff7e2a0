/**
 * One Service with very many endpoints, of which one changes.
 *
 * @module
 */
import { endpointSlice, initialAddresses, newAddress, service } from "../cluster.ts";
import { Commits } from "../commits.ts";
import { Daemon } from "../daemon.ts";
import type { Libc } from "../libc.ts";
import { Stage } from "../stage.ts";
import { median } from "../statistics.ts";
import { sleepUntil } from "./changes.ts";

/** Medians for one changed endpoint. */
export interface WideService {
  readonly endpoints: number;
  readonly operations: number;
  readonly bytes: number;
  readonly milliseconds: number;
}

/** The most endpoints that the API puts into a slice (`--max-endpoints-per-slice`). */
const SLICE = 100;
const CHANGES = 10;

/** Replaces endpoints of a Service that has that many, one at a time. */
export async function measureWideService(libc: Libc, endpoints: number): Promise<WideService> {
  await using stage = await Stage.create(libc, { services: 1, endpoints: 1 });
  const addresses = initialAddresses(0, endpoints);
  await stage.api.put(service(0));
  for (let part = 0; part * SLICE < endpoints; part++) await putSlice(stage, addresses, part);
  const { namespace, api: { kubeconfig } } = stage;
  await using daemon = Daemon.start({ namespace, kubeconfig });
  await daemon.firstSync();
  await using commits = new Commits(libc, namespace);
  const times: number[] = [];
  const firstLine = daemon.lines.length;
  for (let i = 0; i < CHANGES; i++) {
    const position = (i * 7919) % endpoints;
    const address = newAddress(i);
    addresses[position] = address;
    const seen = commits.seen(address);
    const start = performance.now();
    await putSlice(stage, addresses, Math.floor(position / SLICE));
    times.push(await seen - start);
    await sleepUntil(performance.now() + 200);
  }
  const syncs = daemon.lines.slice(firstLine).filter(({ msg }) => msg === "synced");
  return {
    endpoints,
    operations: median(syncs.map((line) => Number(line["operations"]))),
    bytes: median(syncs.map((line) => Number(line["bytes"]))),
    milliseconds: median(times),
  };
}

function putSlice(stage: Stage, addresses: readonly string[], part: number): Promise<void> {
  const members = addresses.slice(part * SLICE, (part + 1) * SLICE);
  return stage.api.put(endpointSlice(0, members, part));
}
