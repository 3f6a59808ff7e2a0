/** The ways in which the test API server misbehaves on request. */

/** The kind of request that a fault hits. */
export type RequestType = "list" | "watch" | "streamingList" | "post";

/** The fault of a request. */
export type FaultType =
  /** An HTTP status with a `Status` object. */
  | { readonly type: "status"; readonly status: number; readonly retryAfter?: number }
  /** 200, then a line that is no JSON. */
  | { readonly type: "garbage" }
  /** 200, half of a watch event, then the end. */
  | { readonly type: "halfLine" }
  /** The connection is cut before an answer. */
  | { readonly type: "cut" }
  /** 200 and an immediate end. */
  | { readonly type: "close" }
  /** The usual answer, late. */
  | { readonly type: "slow"; readonly milliseconds: number }
  /** 200, then nothing for ever. */
  | { readonly type: "stall" }
  /** 200, then an ERROR event of this code. */
  | { readonly type: "errorEvent"; readonly status: number };

/** A fault, for which requests, how often. */
export type Fault = FaultType & {
  /** How many requests it hits; 1 by default. */
  readonly count?: number;
  /** How many requests pass unharmed before; 0 by default. */
  readonly after?: number;
  /** Only this kind; all by default. */
  readonly kind?: string;
  /** Only requests of this type; all by default. */
  readonly on?: RequestType;
};

/** Faults that wait for their requests. */
export class FaultQueue {
  #pending: { readonly fault: Fault; spared: number; left: number }[] = [];

  add(fault: Fault): void {
    this.#pending.push({ fault, spared: fault.after ?? 0, left: fault.count ?? 1 });
  }

  clear(): void {
    this.#pending = [];
  }

  /** How many requests will still be hit. */
  get left(): number {
    return this.#pending.reduce((sum, { left }) => sum + left, 0);
  }

  /** The fault for a request, taken from the queue. */
  take(kind: string, type: RequestType): Fault | undefined {
    const found = this.#pending.find(({ fault }) =>
      (fault.kind ?? kind) === kind && (fault.on ?? type) === type
    );
    if (found === undefined) return undefined;
    if (found.spared > 0) {
      found.spared--;
      return undefined;
    }
    found.left--;
    if (found.left <= 0) this.#pending = this.#pending.filter((entry) => entry !== found);
    return found.fault;
  }
}
