/**
 * Reads the rules' counters when they are asked for, at a bounded cost: however many ask, and however
 * long the programs take.
 *
 * @module
 */
import type { Clock } from "../../model/ports/ports.ts";
import type { PacketCounts } from "./kernel/packet_counts.ts";

/** Milliseconds for which a reading holds. */
const VALID = 5_000;
/** Milliseconds that are waited for a reading; then the one before is given. */
const PATIENCE = 2_000;

/** What is read from. */
export interface PacketReaderOptions {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** Reads the kernel; may reject. */
  readonly refresh: () => Promise<void>;
  /** What is known. */
  readonly known: () => PacketCounts;
}

/** Makes a reading. One that fails gives what was known before, for a counter never goes back. */
export function packetReader(options: PacketReaderOptions): () => Promise<PacketCounts> {
  const { clock, refresh, known } = options;
  let running: Promise<void> | undefined;
  let at = -Infinity;
  const begin = () => {
    at = clock.monotonic();
    return refresh().catch(() => {}).finally(() => running = undefined);
  };
  return async () => {
    if (!running && clock.monotonic() - at >= VALID) running = begin();
    if (running) {
      const enough = new AbortController();
      await Promise.race([running, clock.sleep(PATIENCE, enough.signal)]);
      enough.abort();
    }
    return known();
  };
}
