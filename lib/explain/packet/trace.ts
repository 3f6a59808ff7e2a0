/**
 * The trace of a real packet, as the kernel tells it.
 *
 * nftables marks a packet with `meta nftrace set 1`, and `nft monitor trace` prints each rule that
 * it meets (nft(8), section "meta expressions" and "monitor").
 *
 * @module
 */
import { hostPort } from "../../model/cluster/names.ts";
import { LAST_CHAIN, TRACE_TABLE, WAYS_OUT } from "../../backend/trace.ts";
import type { PacketDestination } from "../frontend.ts";
import type { Outcome } from "./outcome.ts";

/** One step of a packet through the kernel's chains. */
export interface TraceStep {
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

/** What a trace shows. */
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
  /** Where the packet is going, as of the last chain that printed it. */
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

  /** What was seen, beside what should be. */
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
