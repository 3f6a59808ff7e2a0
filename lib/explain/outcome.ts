/** Describes a packet, the rules that it meets, and the outcome. */
import type { Scheduler } from "../model/cluster/scheduler.ts";
import type { Sender } from "../config/command.ts";
import type { Protocol, TrafficPolicy } from "../model/cluster/objects.ts";
import type { ModeTraits } from "../model/kernel/traits.ts";
import type { DesiredState, FrontendType } from "../model/kernel/desired.ts";
import type { RuleNames } from "../backend/backend.ts";
import { familyOf } from "../model/values/address.ts";
import { frontendsOf, type Match } from "../policy/frontend.ts";
import { takesNodePorts } from "../policy/node.ts";

/** The first packet of a connection. */
export interface Packet extends PacketDestination {
  readonly sender: Sender;
  /** Canonical; `undefined`: not known. */
  readonly source: string | undefined;
}

/** The reason of a verdict. */
type OutcomeCode =
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
interface PossibleEndpoint {
  readonly address: string;
  readonly port: number;
  /** Of a new connection, 0 to 1. */
  readonly probability: number;
  /** True if its connections are masqueraded: hairpin ones are, whatever else holds. */
  readonly masqueraded: boolean;
}

/** True if the source address is replaced by this node's. */
export interface Masquerade {
  readonly applies: boolean;
  readonly code:
    | "masquerade-all"
    | "not-a-local-pod"
    | "external-cluster-policy"
    | "node-to-external"
    | "hairpin"
    | "none";
  /** One sentence. */
  readonly reason: string;
}

/** The outcome for a packet. */
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
  /** The spread of new connections; `null`: at random. */
  readonly scheduler: Scheduler | null;
  readonly masquerade: Masquerade | null;
  /** The packets after which a connection may take the kernel's fast path; absent: it does not. */
  readonly acceleratedAfter?: number;
  /** The conditions of the verdict if the packet's source is not known. */
  readonly conditions: readonly string[];
}

/** The verdicts on packets that signpost handles, in the passive voice. */
export const PASSIVE = { dnat: "delivered", reject: "rejected", drop: "dropped" } as const;

/** The desired state, and the names of its rules. */
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

/** The destination of a packet. */
export interface PacketDestination {
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/** The state in which the frontend of a packet is found. */
interface MatchOptions {
  readonly state: DesiredState;
  /** All addresses of this node, loopback included. */
  readonly ownAddresses: readonly string[];
}

/** Returns the frontend that a packet is for; virtual IPs come before node ports, as in the rules. */
export function findFrontend(
  { address, port, protocol }: PacketDestination,
  options: MatchOptions,
): Match | undefined {
  const family = familyOf(address);
  let nodePort: Match | undefined;
  for (const servicePort of [...options.state.services.values()].flat()) {
    if (servicePort.family !== family || servicePort.protocol !== protocol) continue;
    for (const frontend of frontendsOf(servicePort)) {
      if (frontend.port !== port) continue;
      if (frontend.address === address) return { servicePort, frontend };
      if (frontend.address === undefined) nodePort = { servicePort, frontend };
    }
  }
  const { state: { node }, ownAddresses } = options;
  const isOwn = ownAddresses.includes(address);
  return nodePort && takesNodePorts(address, { node, isOwn }) ? nodePort : undefined;
}
