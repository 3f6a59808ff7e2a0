/**
 * Traces a real packet. A rule marks it with `meta nftrace set 1`, and `nft monitor trace` prints the rules that it
 * matches (nft(8), section "meta expressions" and "monitor").
 */
import { endTrace, LAST_CHAIN, startTrace, TRACE_TABLE, WAYS_OUT } from "../backend/trace.ts";
import type { PacketDestination } from "../config/command.ts";
import { hostPort } from "../model/cluster/names.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import { ProgramFailedError } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import type { Outcome, PacketReport, TraceReport } from "./report.ts";

type TraceStep = TraceReport["steps"][number];

const LINE = /^trace id (\S+) (\S+ \S+) (\S+) (packet:|rule|policy|verdict) (.*)$/;

/** Reads the lines of `nft monitor trace` about the first traced packet. */
export class TraceReader {
  readonly #steps: TraceStep[] = [];
  #id: string | undefined;
  /** The packet's destination, as the last chain printed it. */
  #destination = "";

  get hasBegun(): boolean {
    return this.#id !== undefined;
  }

  /** Returns true if the packet was dropped or has left. */
  get isComplete(): boolean {
    const last = this.#steps.at(-1);
    return last?.verdict === "drop" || last?.chain === LAST_CHAIN && last.type === "policy";
  }

  take(line: string): void {
    const [, id, table = "", chain = "", type, rest = ""] = LINE.exec(line) ?? [];
    // A packet that returns to this node has another number.
    if (id === undefined || id !== (this.#id ??= id) || table === TRACE_TABLE) return;
    if (type === "packet:") {
      this.#destination = destinationOf(rest) || this.#destination;
      return;
    }
    const [, text = "", verdict] = /^(.*?)\s*(?:\(verdict ([^)]*)\)\s*)?$/.exec(rest) ?? [];
    const [end = ""] = text.split(" ");
    this.#steps.push({
      table,
      chain,
      type: type as TraceStep["type"],
      text,
      verdict: verdict ?? end,
    });
  }

  /** Compares the trace with the expected outcome. */
  report(packet: PacketDestination, outcome: Outcome): TraceReport {
    const steps = this.#steps;
    const end = steps.find(({ verdict }) => verdict === "drop");
    const target = hostPort(packet.address, packet.port);
    const isTranslated = steps.some(({ text }) => /^dnat\b|DNAT/.test(text));
    // Without a route to its endpoint, a packet is not seen again after its translation.
    const isKnown = this.hasBegun && !end && !(isTranslated && this.#destination === target);
    const destination = isKnown ? this.#destination : "";
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

/** Milliseconds until `nft monitor` listens: it does not report that. */
const BEGIN = 300;
/** Milliseconds in which a packet passes all chains, and between two looks. */
const PATIENCE = 1_000;
const LOOK = 50;
/** The most packets that are sent: the first one may come before `nft monitor` listens. */
const ATTEMPTS = 3;

/** Traces one packet, then removes the table that marks it. @returns the reason if it cannot be traced */
export async function traceConnection(
  { packet, outcome }: Pick<PacketReport, "outcome"> & {
    readonly packet: Omit<PacketReport["packet"], "senderReason">;
  },
  options: {
    readonly runtime: Pick<Runtime, "clock" | "runner" | "streamer" | "sendProbe">;
    readonly signal: AbortSignal;
  },
): Promise<TraceReport | string> {
  const { sender, source, ...destination } = packet;
  const target = { ...destination, source: source ?? undefined };
  if (target.protocol === "sctp") return "SCTP packets cannot be sent from here: no trace";
  if (sender !== "node") {
    return "only this node's own packets can be sent from here: no trace (--from node)";
  }
  const { clock, runner, streamer, sendProbe } = options.runtime;
  const reader = new TraceReader();
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const follow = async () => {
    for await (const line of streamer.lines(["nft", "monitor", "trace"], signal)) reader.take(line);
  };
  const send = async () => {
    for (let attempt = 0; attempt < ATTEMPTS && !reader.hasBegun && !signal.aborted; attempt++) {
      await clock.sleep(BEGIN, signal);
      await sendProbe({ ...target, timeout: PATIENCE });
      for (let waited = 0; waited < PATIENCE && !reader.isComplete; waited += LOOK) {
        if (signal.aborted) break;
        await clock.sleep(LOOK, signal);
      }
    }
    stop.abort();
  };
  try {
    await startTrace(runner, target);
    try {
      await Promise.all([follow(), send()]);
    } finally {
      stop.abort();
      await endTrace(runner);
    }
  } catch (error) {
    if (!(error instanceof ApplyError || error instanceof ProgramFailedError)) throw error;
    return `--trace: ${error.message}`;
  }
  return reader.report(target, outcome);
}
