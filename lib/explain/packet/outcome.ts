/**
 * What there is to say of a packet: what it is, what it meets, what becomes of it.
 *
 * @module
 */
import type { Scheduler } from "../../model/cluster/scheduler.ts";
import type { Sender } from "../../config/command.ts";
import type { TrafficPolicy } from "../../model/cluster/objects.ts";
import type { ModeTraits } from "../../model/kernel/traits.ts";
import type { MatchOptions, PacketDestination } from "../frontend.ts";
import type { FrontendType } from "../../model/kernel/desired.ts";
import type { Masquerade } from "./masquerade.ts";
import type { RuleNames } from "../../backend/backend.ts";

/** The first packet of a connection. */
export interface Packet extends PacketDestination {
  readonly sender: Sender;
  /** Canonical; `undefined`: not known. */
  readonly source: string | undefined;
}

/** Why a packet meets its verdict. */
export type OutcomeCode =
  | "delivered"
  | "no-endpoints"
  | "no-local-endpoints"
  | "source-range"
  | "undefined-port"
  | "unallocated-address"
  | "localhost-listener"
  | "no-localhost-listener"
  | "not-on-localhost"
  | "not-a-service";

/** An endpoint that a connection may be sent to. */
export interface PossibleEndpoint {
  readonly address: string;
  readonly port: number;
  /** Of a new connection, 0 to 1. */
  readonly probability: number;
  /** True if its connections are masqueraded: hairpin ones are, whatever else holds. */
  readonly masqueraded: boolean;
}

/** What becomes of a packet. */
export interface Outcome {
  readonly verdict: "dnat" | "reject" | "drop" | "none";
  readonly code: OutcomeCode;
  /** One sentence. */
  readonly reason: string;
  /** The rule or element that decides; `null`: none does. */
  readonly rule: string | null;
  readonly servicePort: string | null;
  readonly frontend: FrontendType | null;
  /** The policy whose endpoints are used, not always the one that is configured. */
  readonly policy: TrafficPolicy | null;
  readonly endpoints: readonly PossibleEndpoint[];
  /** Seconds that a client stays on its endpoint; 0: each connection is on its own. */
  readonly affinitySeconds: number;
  /** How new connections are spread; `null`: at random. */
  readonly scheduler: Scheduler | null;
  readonly masquerade: Masquerade | null;
  /** The packets after which a connection may take the kernel's fast path; absent: it does not. */
  readonly acceleratedAfter?: number;
  /** What the verdict depends on, where the packet's source is not known. */
  readonly conditions: readonly string[];
}

/** What a packet meets. */
export interface World extends MatchOptions {
  readonly traits: ModeTraits;
  readonly rules: RuleNames;
}

/** An outcome where nothing of a Service is concerned. */
export const NOTHING = {
  servicePort: null,
  frontend: null,
  policy: null,
  endpoints: [],
  affinitySeconds: 0,
  scheduler: null,
  masquerade: null,
  conditions: [],
} as const;
