/**
 * Sends one packet from this node and follows it through the kernel's rules.
 *
 * @module
 */
import { ApplyError } from "../../model/kernel/dataplane.ts";
import { endTrace, startTrace } from "../../backend/trace.ts";
import type { Runtime } from "../../model/ports/runtime.ts";
import { FatalError } from "../../model/values/errors.ts";
import type { PacketDestination } from "../frontend.ts";
import type { Outcome } from "./outcome.ts";
import { TraceReader, type TraceReport } from "./trace.ts";

/** What a trace takes. */
export interface TraceOptions {
  readonly packet: PacketDestination;
  /** An address of this node; `undefined`: whichever the kernel chooses. */
  readonly source: string | undefined;
  /** What the rules should do. */
  readonly outcome: Outcome;
  readonly runtime: Pick<Runtime, "clock" | "runner" | "streamer" | "sendProbe">;
  readonly signal: AbortSignal;
}

/** Milliseconds for `nft monitor` to begin listening; it does not say when it does. */
const BEGIN = 300;
/** Milliseconds that a packet has to pass all chains. */
const PATIENCE = 1_000;
/** The first packet may come before `nft monitor` listens. */
const ATTEMPTS = 3;

/**
 * Traces one packet. The table that asks for it is removed, whatever happens.
 *
 * @throws {FatalError} where the kernel does not allow it
 */
export async function traceConnection(options: TraceOptions): Promise<TraceReport> {
  const { packet, source, outcome, runtime } = options;
  const reader = new TraceReader();
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const following = follow(reader, { runtime, signal });
  try {
    await startTrace(runtime.runner, { ...packet, source });
    for (let attempt = 0; attempt < ATTEMPTS && !reader.hasBegun && !signal.aborted; attempt++) {
      await runtime.clock.sleep(BEGIN, signal);
      await runtime.sendProbe({ ...packet, source, timeout: PATIENCE });
      await until(() => reader.isComplete, { runtime, signal });
    }
  } catch (error) {
    throw error instanceof ApplyError
      ? new FatalError(`--trace: ${error.message}`, { cause: error })
      : error;
  } finally {
    stop.abort();
    await endTrace(runtime.runner);
  }
  await following;
  return reader.report(packet, outcome);
}

async function follow(
  reader: TraceReader,
  { runtime, signal }: Pick<TraceOptions, "runtime" | "signal">,
): Promise<void> {
  for await (const line of runtime.streamer.lines(["nft", "monitor", "trace"], signal)) {
    reader.take(line);
  }
}

async function until(
  isDone: () => boolean,
  { runtime, signal }: Pick<TraceOptions, "runtime" | "signal">,
): Promise<void> {
  for (let waited = 0; waited < PATIENCE && !isDone() && !signal.aborted; waited += BEGIN / 6) {
    await runtime.clock.sleep(BEGIN / 6, signal);
  }
}
