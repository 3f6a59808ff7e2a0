/**
 * Deletes stale entries of connection tracking after syncs.
 * - UDP, as kube-proxy does (`pkg/proxy/conntrack/cleanup.go`): a flow stays on its first endpoint
 *   while its entry exists, and each datagram prolongs the entry.
 * - TCP and SCTP: a client that tries again from the same port would never reach a Service that came after its first try.
 */
import {
  changesFixedRules,
  type DesiredServicePort,
  type DesiredState,
  type ServiceChange,
  servingEndpoints,
  type StateChange,
} from "../model/kernel/desired.ts";
import type { Script } from "../model/kernel/dataplane.ts";
import { Turns } from "../model/ports/in_turns.ts";
import { type Logger, ProgramFailedError, ProgramMissingError } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { FAMILIES, type Family } from "../model/values/address.ts";
import {
  type ConntrackEntry,
  ConntrackError,
  deleteEntries,
  deletionsOf,
  listEntries,
} from "./tool.ts";
import { type Protocol, PROTOCOLS } from "../model/cluster/objects.ts";
import { frontendKey, hostPort, keyInFamily } from "../model/cluster/names.ts";
import { frontendsOf, type Match } from "../policy/frontend.ts";
import { takesNodePorts } from "../policy/node.ts";

interface ConntrackCleanerOptions {
  readonly state: DesiredState;
  readonly runtime: Pick<Runtime, "runner" | "clock" | "addresses">;
  readonly metrics: {
    conntrackReconciled(family: Family, result: { deleted: number; seconds: number }): void;
  };
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** Milliseconds after which entries are listed again: entries without traffic expire. */
const FRESH = 10_000;
/** Milliseconds between two clean-ups. */
const PAUSE = 1_000;
/** Milliseconds from a failed clean-up to the next. */
const RETRY_PAUSE = 10_000;

/** Deletes entries while syncs go on, so a `conntrack` that hangs does not delay rules. Retries failures later. */
export class ConntrackCleaner {
  readonly #suspects: Record<Family, Suspects> = { 4: new Map(), 6: new Map() };
  /** True if the kernel has the desired state of the last sync. */
  #isSynced = false;
  #isRunning = false;
  #isMissing = false;
  #lastWarning = "";

  constructor(private readonly options: ConntrackCleanerOptions) {}

  /** Notes what a sync may have made stale, and starts a clean-up if it succeeded. @yields when other work can run */
  *following({ change, applied, isFull }: {
    readonly change: StateChange;
    readonly applied: Script["kind"] | undefined;
    readonly isFull: boolean;
  }): Generator<undefined, void> {
    if (this.#isMissing) return;
    this.#isSynced = applied !== undefined;
    const changed = change.services.values().filter(({ before, after }) => before !== after);
    // If the fixed rules change, other addresses of the node may take node ports.
    const all = isFull || changesFixedRules(change) ? this.options.state.services.values() : [];
    const renewed = all.map((after): ServiceChange => ({ before: [], after }));
    for (const each of [changed, renewed].values().flatMap((each) => each)) {
      yield;
      addSuspects(this.#suspects, each);
    }
    if (!this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    const { runtime: { clock }, signal } = this.options;
    this.#isRunning = true;
    while (this.#isSynced && !signal.aborted && FAMILIES.some((f) => this.#suspects[f].size > 0)) {
      let isDone = true;
      for (const family of FAMILIES) isDone = await this.#clean(family) && isDone;
      if (isDone) this.#lastWarning = "";
      await clock.sleep(isDone ? PAUSE : RETRY_PAUSE, signal);
    }
    this.#isRunning = false;
  }

  /** Deletes the stale entries of a family. @returns false if it failed and must be tried again */
  async #clean(family: Family): Promise<boolean> {
    const suspects = this.#suspects[family];
    this.#suspects[family] = new Map();
    try {
      if (suspects.size > 0) await this.#deleteStale(family, suspects);
      return true;
    } catch (error) {
      if (error instanceof ProgramMissingError) return this.#giveUp();
      const isFailed = error instanceof ProgramFailedError;
      if (!isFailed && !(error instanceof ConntrackError)) throw error;
      const what = isFailed ? "stale conntrack entries are not deleted: " : "";
      this.#warn(`${what}${error.message}; trying again later`);
      this.#keep(family, suspects);
      return false;
    }
  }

  async #deleteStale(family: Family, suspects: Suspects): Promise<void> {
    const { state, runtime: { runner, clock, addresses }, metrics, logger, signal } = this.options;
    const started = clock.monotonic();
    const listings: Iterable<ConntrackEntry>[] = [];
    for (const protocol of PROTOCOLS) {
      for (const port of portsToList(suspects, protocol)) {
        listings.push(await listEntries(runner, { family, protocol, port }));
      }
    }
    // The state is read after the listings: a flow may lead to an endpoint that came during a listing.
    const entries = listings.values().flatMap((listing) => listing);
    const options = { family, suspects, state, localAddresses: new Set(addresses()) };
    const stale = await new Turns(clock).run(findingStale(entries, options));
    const listed = clock.monotonic();
    let deleted = 0;
    for (const deletion of deletionsOf(stale)) {
      if (signal.aborted) return;
      if (clock.monotonic() - listed > FRESH) {
        this.#keep(family, suspects);
        break;
      }
      deleted += await deleteEntries(runner, deletion);
    }
    const seconds = (clock.monotonic() - started) / 1000;
    metrics.conntrackReconciled(family, { deleted, seconds });
    if (deleted === 0) return;
    logger.debug(2, "stale conntrack entries deleted", { family, deleted, seconds });
  }

  #keep(family: Family, suspects: Suspects): void {
    for (const suspect of suspects) addSuspect(this.#suspects[family], suspect);
  }

  #giveUp(): true {
    this.#isMissing = true;
    for (const family of FAMILIES) this.#suspects[family].clear();
    this.#warn(
      "stale conntrack entries are not deleted, clients of changed Services may hang: " +
        "the program conntrack cannot be run; install conntrack-tools and restart",
    );
    return true;
  }

  #warn(message: string): void {
    if (message !== this.#lastWarning) this.options.logger.warn(message);
    this.#lastWarning = message;
  }
}

/** A frontend whose flows may be stale. */
interface Suspect {
  readonly protocol: Protocol;
  readonly port: number;
  /** Its earlier endpoints, as `address:port`: flows to them are stale if the frontend is gone. */
  readonly former: ReadonlySet<string>;
}

/** Frontends of one family whose flows may be stale, by `frontendKey`. TCP and SCTP have one entry for each port. */
export type Suspects = Map<string, Suspect>;

/** The limit of suspects. Above it, all entries are listed, and flows to deleted frontends stay. */
const MOST_SUSPECTS = 10_000;

/** The number of former endpoints from which later changes are not added, while conntrack fails. */
const MOST_FORMER = 1_000;

/** Adds the frontends of a Service that changes: all UDP frontends, and new frontends of other protocols. */
export function addSuspects(
  suspects: Readonly<Record<Family, Suspects>>,
  { before, after }: ServiceChange,
): void {
  const known = new Set<string>();
  for (const [isNew, ports] of [[false, before], [true, after]] as const) {
    for (const [key, { servicePort, frontend: { port } }] of frontends(ports)) {
      const { family, protocol } = servicePort;
      if (protocol === "udp") {
        addSuspect(suspects[family], [key, { protocol, port, former: endpointsOf(servicePort) }]);
      } else if (!isNew) {
        known.add(keyInFamily(family, key));
      } else if (!known.has(keyInFamily(family, key))) {
        const ofPort = frontendKey({ address: undefined, protocol, port });
        addSuspect(suspects[family], [ofPort, { protocol, port, former: new Set() }]);
      }
    }
  }
}

function addSuspect(suspects: Suspects, [key, suspect]: readonly [string, Suspect]): void {
  const known = suspects.get(key);
  if (known && known.former.size < MOST_FORMER) {
    suspects.set(key, { ...suspect, former: known.former.union(suspect.former) });
  } else if (!known && suspects.size < MOST_SUSPECTS) {
    suspects.set(key, suspect);
  }
}

/** The limit of listings with a filter. Each walks all of the kernel's table, so more cost more than a full listing. */
const MAX_LISTINGS = 3;

/** Returns the ports to list entries of; `undefined`: all. A node may have 100,000 entries of other ports. */
export function portsToList(
  suspects: Suspects,
  protocol: Protocol,
): readonly (number | undefined)[] {
  const ofProtocol = suspects.values().filter((each) => each.protocol === protocol);
  const ports = new Set(ofProtocol.map(({ port }) => port));
  const isAll = ports.size > MAX_LISTINGS || ports.size > 0 && suspects.size === MOST_SUSPECTS;
  return isAll ? [undefined] : [...ports];
}

/** Returns `address:port` of every endpoint that a flow may stay on. */
function endpointsOf(port: DesiredServicePort): ReadonlySet<string> {
  return new Set(servingEndpoints(port).map((each) => hostPort(each.address, each.port)));
}

function* frontends(ports: readonly DesiredServicePort[]): Generator<readonly [string, Match]> {
  for (const servicePort of ports) {
    const { protocol } = servicePort;
    for (const frontend of frontendsOf(servicePort)) {
      yield [frontendKey({ ...frontend, protocol }), { servicePort, frontend }];
    }
  }
}

interface StaleOptions {
  readonly family: Family;
  readonly suspects: Suspects;
  readonly state: DesiredState;
  /** All addresses of the node's interfaces, canonical. */
  readonly localAddresses: ReadonlySet<string>;
}

/**
 * Returns the entries of a family that are stale.
 * - They go to a virtual IP, or to a node port. Only node-port addresses count: pods use the same port of other hosts.
 * - Their answers do not come from an endpoint of the frontend. A deleted frontend counts its former endpoints.
 * - Entries of TCP and SCTP are untranslated. A translated first packet waits for its endpoint.
 * - Untranslated entries in a separate zone stay: Open vSwitch tracks a packet before and after its translation.
 * @yields when other work can run
 */
export function* findingStale(
  entries: Iterable<ConntrackEntry>,
  { family, suspects, state: { node, services }, localAddresses }: StaleOptions,
): Generator<undefined, ConntrackEntry[]> {
  const protocols = new Set(suspects.values().map(({ protocol }) => protocol));
  const present = new Map<string, DesiredServicePort>();
  for (const ports of services.values()) {
    yield;
    const looked = ports.filter((port) => port.family === family && protocols.has(port.protocol));
    for (const [key, { servicePort }] of frontends(looked)) present.set(key, servicePort);
  }
  const keyOf = ({ protocol, original: { dst, dport } }: ConntrackEntry) => {
    const vip = frontendKey({ address: dst, protocol, port: dport });
    const nodePort = frontendKey({ address: undefined, protocol, port: dport });
    const isNodePort = !present.has(vip) && (present.has(nodePort) || suspects.has(nodePort)) &&
      takesNodePorts(dst, { node, isOwn: localAddresses.has(dst) });
    return isNodePort ? nodePort : vip;
  };
  const serving = new Map<DesiredServicePort, ReadonlySet<string>>();
  const stale: ConntrackEntry[] = [];
  for (const entry of entries) {
    yield;
    const { protocol, original, reply, zoned } = entry;
    const source = hostPort(reply.src, reply.sport);
    const isTranslated = source !== hostPort(original.dst, original.dport);
    if (isTranslated ? protocol !== "udp" : zoned) continue;
    const key = keyOf(entry);
    const port = present.get(key);
    if (port) {
      const endpoints = serving.get(port) ?? endpointsOf(port);
      serving.set(port, endpoints);
      if (!endpoints.has(source)) stale.push(entry);
    } else if (isTranslated && suspects.get(key)?.former.has(source)) {
      stale.push(entry);
    }
  }
  return stale;
}
