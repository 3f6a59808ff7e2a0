/**
 * Traces a real packet through the kernel's rules.
 *
 * nftables marks a packet with `meta nftrace set 1`, and `nft monitor trace` prints each rule that it meets
 * (nft(8), section "meta expressions" and "monitor").
 */
import { hostPort } from "../model/cluster/names.ts";
import { endTrace, LAST_CHAIN, startTrace, TRACE_TABLE, WAYS_OUT } from "../backend/trace.ts";
import type { Outcome, PacketDestination } from "./outcome.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { FatalError } from "../model/values/errors.ts";

/** One step of a packet through the kernel's chains. */
interface TraceStep {
  /** `inet signpost`. */
  readonly table: string;
  readonly chain: string;
  /** `rule`: one that matched; `policy`: the end of a base chain. */
  readonly type: "rule" | "policy" | "verdict";
  /** The rule, or what the chain's end says. */
  readonly text: string;
  /** `accept`, `drop`, `goto pick-endpoints4-tcp-2` and such. */
  readonly verdict: string;
}

/** The result of a trace. */
export interface TraceReport {
  /** `lost`: the packet was not seen by the rules. */
  readonly verdict: Outcome["verdict"] | "lost";
  /** `address:port` that the packet left with; `""`: it did not, or that was not seen. */
  readonly destination: string;
  readonly masqueraded: boolean;
  /** True if it went out of this node, or to a program here, as far as the chains tell. */
  readonly hasLeft: boolean;
  /** True if it is what the rules should do. */
  readonly agrees: boolean;
  readonly steps: readonly TraceStep[];
}

const LINE = /^trace id (\S+) (\S+ \S+) (\S+) (packet:|rule|policy|verdict) (.*)$/;

/** Gathers the lines of `nft monitor trace` that are about the first packet traced. */
export class TraceReader {
  readonly #steps: TraceStep[] = [];
  #id: string | undefined;
  /** The packet's destination as of the last chain that printed it. */
  #destination = "";

  /** Returns true if anything was seen. */
  get hasBegun(): boolean {
    return this.#id !== undefined;
  }

  /** Returns true if the packet has met its end, or has left. */
  get isComplete(): boolean {
    const last = this.#steps.at(-1);
    return last !== undefined &&
      (last.verdict === "drop" || (last.chain === LAST_CHAIN && last.type === "policy"));
  }

  /** Takes one line. */
  take(line: string): void {
    const [, id, table = "", chain = "", type, rest = ""] = LINE.exec(line) ?? [];
    if (id === undefined || (this.#id !== undefined && id !== this.#id)) return;
    // The packet that comes back to this node on its way has another number.
    this.#id = id;
    if (table === TRACE_TABLE) return;
    if (type === "packet:") {
      this.#destination = destinationOf(rest) || this.#destination;
      return;
    }
    const verdict = /\(verdict ([^)]*)\)\s*$/.exec(rest)?.[1] ?? rest.trim().split(" ")[0] ?? "";
    const text = rest.replace(/\s*\(verdict [^)]*\)\s*$/, "").trim();
    this.#steps.push({ table, chain, type: type as TraceStep["type"], text, verdict });
  }

  /** Compares what was seen with the expected outcome. */
  report(packet: PacketDestination, outcome: Outcome): TraceReport {
    const steps = this.#steps;
    const end = steps.find(({ verdict }) => verdict === "drop");
    const target = hostPort(packet.address, packet.port);
    const isTranslated = steps.some(({ text }) => /^dnat\b|DNAT/.test(text));
    // Without a route to its endpoint, a packet is not seen again after its translation.
    const known = this.#destination === target && isTranslated ? "" : this.#destination;
    const destination = end || !this.hasBegun ? "" : known;
    const verdict = !this.hasBegun
      ? "lost"
      : end
      ? /\breject\b|REJECT/.test(end.text) ? "reject" : "drop"
      : isTranslated || destination !== target
      ? "dnat"
      : "none";
    const isExpected = verdict !== "dnat" || destination === "" ||
      outcome.endpoints.some(({ address, port }) => hostPort(address, port) === destination);
    return {
      verdict,
      destination,
      masqueraded: steps.some(({ text }) => /\bmasquerade\b|MASQUERADE/.test(text)),
      hasLeft: steps.some(({ chain, type, verdict }) =>
        WAYS_OUT.includes(chain) && (type === "policy" || verdict === "accept")
      ),
      agrees: verdict === outcome.verdict && isExpected,
      steps,
    };
  }
}

function destinationOf(packet: string): string {
  const address = /\bip6? daddr (\S+)/.exec(packet)?.[1];
  const port = /\b(?:tcp|udp|sctp|th) dport (\d+)/.exec(packet)?.[1];
  return address === undefined || port === undefined ? "" : hostPort(address, Number(port));
}

/** The packet to trace, and the ports. */
interface TraceOptions {
  readonly packet: PacketDestination;
  /** An address of this node; `undefined`: whichever the kernel chooses. */
  readonly source: string | undefined;
  /** The expected outcome. */
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
 * @throws {FatalError} if the kernel does not allow it
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
